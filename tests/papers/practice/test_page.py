"""papers/practice/README.md shows exactly what the committed results say."""

import json
import re

import numpy as np
import pytest
from papers.fed_plus.results import read_csv, read_json
from papers.fed_plus.write_readme import fill_blocks
from papers.practice.candidates import draw_candidates, grid_of
from papers.practice.comparisons import NEAREST, OURS, RIVALS, compare, compare_with_rivals
from papers.practice.federations import load_grids, specs
from papers.practice.methods import FAMILIES
from papers.practice.report import PAGE, read_scores, render_blocks
from papers.practice.study import Job, choose, run_job
from papers.practice.summary import (
    RESULTS,
    format_settings,
    party_records,
    read_pieces,
    score_record,
    write_results,
)
from papers.practice.tables import best_methods
from scipy import stats

from fedplus.check import SettingError

SEEDS = load_grids()["budget"]["seeds"]


@pytest.fixture(scope="module")
def scores():
    return read_scores()


@pytest.fixture(scope="module")
def parties():
    return read_csv(RESULTS / "parties.csv")


def block(name):
    page = PAGE.read_text(encoding="utf-8")
    (text,) = set(re.findall(rf"<!-- {re.escape(name)} -->\n?(.*?)<!-- end -->", page, re.DOTALL))
    return text


def test_the_page_shows_the_committed_results():
    page = PAGE.read_text(encoding="utf-8")
    blocks = render_blocks()
    assert fill_blocks(page, blocks) == page, "Run: python -m papers.practice.report --page"
    assert set(re.findall(r"<!-- ([\w+-]+) -->", page)) - {"end"} == set(blocks)


def test_no_line_of_the_text_begins_with_a_marker_that_text_follows():
    """Markdown takes such a line as HTML, and shows its code and its asterisks as they are."""
    page = PAGE.read_text(encoding="utf-8")
    assert not re.findall(r"^\s*<!-- [\w+-]+ -->.+$", page, re.MULTILINE)


def test_results_have_every_method_on_every_federation(scores):
    expected = [(s.name, method) for s in specs().values() for method in FAMILIES[s.families]]
    assert list(scores) == expected


# ------------------------------------------------------------------- The specification and the page


def test_the_page_states_the_budget_of_the_specification():
    budget = load_grids()["budget"]
    assert block("candidates") == str(budget["candidates"]) == "24"
    assert block("seeds") == f"{len(SEEDS)} seeds (0 to 4)"
    assert block("validation-share") == "33%" == f"{100 * budget['validation_share']:g}%"
    assert block("shares") == "0, 0.25 or 0.5"
    assert load_grids()["warm_up"]["shares"] == [0.0, 0.25, 0.5]


def test_the_page_states_how_each_federation_is_trained():
    rows = [line.strip("| ").split(" | ") for line in block("federations").splitlines()[2:]]
    assert [row[0] for row in rows] == [f"`{name}`" for name in specs()]
    for row, spec in zip(rows, specs().values(), strict=True):
        assert row[2] == ("all" if spec.cohort is None else str(spec.cohort))
        assert [int(row[i]) for i in (3, 4, 7)] == [spec.rounds, spec.steps, len(spec.splits)]


def test_federations_called_tenth_have_a_tenth_of_the_parties_and_four_times_the_rounds():
    for spec in specs().values():
        if spec.cohort is not None:
            whole = specs()[spec.name.removesuffix("-tenth")]
            assert whole.cohort is None
            assert spec.rounds == 4 * whole.rounds


def test_trials_are_as_many_as_the_budget_and_the_best_is_chosen(scores):
    """The pieces are not needed: candidates are drawn again, and trials.json has their scores."""
    budget = load_grids()["budget"]["candidates"]
    trials = read_json(RESULTS / "trials.json")
    for (name, method), record in scores.items():
        spec, found = specs()[name], trials[name][method]
        candidates = draw_candidates(spec, FAMILIES[spec.families][method])
        assert len(candidates) == len(found["validation"]) == budget
        best = choose(
            [
                {"settings": settings, "scores": [score], "gave_up": gave_up}
                for settings, score, gave_up in zip(
                    candidates, found["validation"], found["gave_up"], strict=True
                )
            ],
            record["better"],
        )  # fmt: skip
        assert best["gave_up"] == 0
        assert best["mean"] == pytest.approx(record["validation"], rel=1e-4)
        equal = [
            format_settings(settings)
            for settings, score in zip(candidates, found["validation"], strict=True)
            if score == best["mean"]
        ]
        assert record["settings"] in equal


def test_means_are_those_of_the_seeds(scores):
    for record in scores.values():
        means = [record[f"seed_{seed}"] for seed in SEEDS]
        assert np.mean(means) == pytest.approx(record["mean"], rel=1e-5)
        assert np.std(means, ddof=1) == pytest.approx(record["sd"], rel=1e-2, abs=1e-6)


# -------------------------------------------------------------------- Statements of the page's text


def test_joining_makes_no_difference_if_all_take_part(scores):
    for spec in specs().values():
        if spec.cohort is None and spec.families == "main":
            for join, first in (("+", "+first"), ("+quarter", "+first-quarter")):
                ours, other = (scores[spec.name, f"fedgeomed{s}"] for s in (join, first))
                assert all(ours[key] == other[key] for key in ours if key != "method")


def test_joining_helps_patients_schools_and_writers(scores):
    for name in ("patients-tenth", "school-tenth", "writers-tenth"):
        for join, first in (("+", "+first"), ("+quarter", "+first-quarter")):
            (found,) = compare(scores, [(name, f"fedgeomed{join}", f"fedgeomed{first}")])
            assert found.gain > 0


def test_private_layers_help_where_inputs_differ_only(scores):
    assert best_methods(scores, "layers-robust") == ["fedgeomed+head"]
    for name in ("layers-writers", "layers-personal"):
        for method, shared in (
            ("fedgeomed+head", "fedgeomed+warm"), ("fedper", "fedavg"), ("fedrep", "fedavg"),
            ("lg-fedavg", "fedavg"),
        ):  # fmt: skip
            assert scores[name, method]["mean"] < scores[name, shared]["mean"]


def test_no_setting_is_at_least_as_good_as_both_rivals_everywhere(scores):
    worse, significant = {}, {}
    for method in OURS:
        found = compare_with_rivals(scores, method)
        worse[method] = len({c.federation for c in found if c.gain < 0})
        significant[method] = sum(c.sign < 0 for c in found)
    assert min(worse.values()) > 0
    fewest = {method for method, count in worse.items() if count == min(worse.values())}
    assert fewest == set(NEAREST)
    assert significant[NEAREST[0]] < significant[NEAREST[1]]
    assert significant[NEAREST[0]] == min(significant.values()) == 1


def test_medians_beat_the_rivals_under_attack(scores):
    attacked = {m: scores["digits-attacked", m]["mean"] for m in FAMILIES["main"]}
    assert min(attacked[m] for m in NEAREST) > max(attacked[r] for r in RIVALS) + 0.15
    assert max(attacked[m] for m in ("mr-mtl", "mr-mtl-warm", "fedavg+warm", "fedavg-ft")) < 0.11


def test_steps_are_given_up_under_the_attack_only(scores, parties):
    assert {r["federation"] for r in parties if r["gave_up"]} == {"digits-attacked"}
    assert all(np.isfinite(record["mean"]) for record in scores.values())


def test_parties_below_untrained_are_those_that_the_text_names(parties):
    below = [r for r in parties if r["below"] and r["federation"] != "digits-attacked"]
    diverged = {
        (r["federation"].removesuffix("-tenth"), r["party"], r["seed"])
        for r in below if r["repeated"]
    }  # fmt: skip
    assert diverged == {("school", 108, 1), ("patients", 29, 1)}
    patient = {r["method"] for r in below if r["party"] == 29}
    assert patient == {"fedavg+warm"}
    others = {
        (r["federation"].split("-")[0], r["method"], r["party"]) for r in below if not r["repeated"]
    }
    assert others == {
        ("patients", "fedavg", 15), ("patients", "fedavg", 17), ("patients", "fedavg-ft", 17),
        ("patients", "apfl", 17), ("school", "fedavg", 12), ("school", "mr-mtl", 12),
        ("school", "mr-mtl-gm", 12), ("mnist", "fedavg", 9), ("writers", "local", 108),
        ("layers", "local", 132),
    }  # fmt: skip


def test_patient_35_repeats_steps_under_all_seeds_and_stays_finite(parties):
    found = [r for r in parties if r["federation"].startswith("patients") and r["party"] == 35]
    methods = {(r["federation"], r["method"]) for r in found}
    assert len(found) == len(SEEDS) * len(methods)
    assert all(r["repeated"] == 60 for r in found if r["federation"] == "patients")
    assert not any(r["below"] for r in found)


def test_settings_at_the_edge_are_mostly_the_largest_eta(scores):
    etas = []
    for (name, method), record in scores.items():
        if method.startswith("fedgeomed+") and "eta" in (record["at_edge"] or ""):
            grid = FAMILIES[specs()[name].families][method].grid
            eta = float(re.search(r"eta = ([\d.]+)", record["settings"])[1])
            etas.append(eta == max(grid_of(specs()[name], grid)["eta"]))
    assert np.mean(etas) > 0.5


def test_the_winning_combination_of_mr_mtl_was_not_drawn_for_fedgeomed_plus(scores):
    """This is a limit of the budget on the schools, which the page states."""
    spec = specs()["school"]
    assert scores["school", "mr-mtl-warm"]["settings"] == "eta = 0.01, sigma = 3, share = 0.5"
    drawn = draw_candidates(spec, FAMILIES["main"]["fedgeomed+warm"])
    assert not any((c["eta"], c["sigma"], c["delta"]) == (0.01, 3.0, 300.0) for c in drawn)


# ---------------------------------------------------------------------------- How they are computed


def test_gains_are_paired_and_corrected():
    def row(method, better, *means):
        return {"method": method, "better": better} | dict(zip(
            [f"seed_{seed}" for seed in SEEDS], means, strict=True
        ))  # fmt: skip

    a, b = [0.8, 0.81, 0.83, 0.8, 0.79], [0.7, 0.72, 0.7, 0.74, 0.71]
    c, d = [3.0, 2.0, 4.0, 3.5, 2.5], [2.0, 2.5, 3.5, 3.0, 2.0]
    scores = {
        ("x", "ours"): row("ours", "higher", *a), ("x", "rival"): row("rival", "higher", *b),
        ("y", "ours"): row("ours", "lower", *c), ("y", "rival"): row("rival", "lower", *d),
        ("x", "twin"): row("twin", "higher", *a),
    }  # fmt: skip
    pairs = [("x", "ours", "rival"), ("y", "ours", "rival"), ("x", "ours", "twin")]
    first, second, same = compare(scores, pairs)
    assert first.gain == pytest.approx(100 * (np.mean(a) - np.mean(b)))
    assert second.gain == pytest.approx(100 * (1 - np.mean(c) / np.mean(d)))
    p, q = (stats.ttest_rel(x, y).pvalue for x, y in ((a, b), (c, d)))
    assert p < q
    assert [first.p, second.p] == pytest.approx([2 * p, max(2 * p, q)])
    assert (first.sign, second.sign) == (1, 0)
    assert (same.gain, same.p, same.sign) == (0.0, 1.0, 0)


PIECE = {
    "federation": "hospitals", "method": "local", "better": "higher", "sizes": [30, 20, 10],
    "settings": {"eta": 0.5, "sigma": 1.0}, "at_edge": ["eta"], "validation": 0.5, "trials": [],
    "tests": [
        {"seed": 0, "score": [0.9, 0.6, 0.3], "untrained": [0.5, 0.5, 0.5], "repeated": [0, 0, 2],
         "gave_up": [0, 0, 1]},
        {"seed": 1, "score": [0.7, float("nan"), 0.5], "untrained": [0.5, 0.5, 0.5],
         "repeated": [1, 0, 0], "gave_up": [0, 0, 0]},
    ],
}  # fmt: skip


def test_a_row_counts_pairs_of_a_party_and_a_seed():
    record = score_record(PIECE)
    assert [record[f"parties_{name}"] for name in ("below", "repeated", "gave_up")] == [2, 2, 1]
    assert record["parties_times_seeds"] == 6
    assert record["seed_0"] == pytest.approx(0.6)
    assert record["settings"] == "eta = 0.5, sigma = 1"
    found = [(r["seed"], r["party"], r["samples"], r["below"]) for r in party_records(PIECE)]
    assert found == [(0, 2, 10, 1), (1, 0, 30, 0), (1, 1, 20, 1)]  # Equal is not worse; NaN is.


def test_missing_pieces_are_named(tmp_path):
    with pytest.raises(SettingError, match="hospitals--local"):
        read_pieces(tmp_path)


@pytest.mark.slow
def test_a_quick_trial_writes_a_piece_that_can_be_summarised(tmp_path):
    job = Job("digits-attacked", "local", True, str(tmp_path))
    assert list(job.missing) == ["local"]
    run_job(job)
    assert not job.missing
    piece = json.loads((tmp_path / "digits-attacked--local.json").read_text())
    write_results([piece], tmp_path)
    (record,) = read_csv(tmp_path / "scores.csv")
    assert record["parties_times_seeds"] == 14  # The honest parties under one seed.
    assert len(read_json(tmp_path / "trials.json")["digits-attacked"]["local"]["validation"]) == 2
