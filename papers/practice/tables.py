"""Tables of the page: the set-up, mean scores, comparisons, divergence, and all results."""

import math
from collections.abc import Sequence

from papers.fed_plus.results import Record, group_records, read_csv
from papers.practice.candidates import grid_of
from papers.practice.comparisons import (
    NEAREST,
    OURS,
    RIVALS,
    Comparison,
    Scores,
    compare_with_rivals,
    format_gain,
    names_of,
)
from papers.practice.federations import Spec, load_grids, specs
from papers.practice.methods import FAMILIES, LAYERS, MAIN
from papers.practice.summary import RESULTS

from fedplus.report.table_formats import markdown_table

LABELS = {name: method.label for name, method in {**MAIN, **LAYERS}.items()}


def federations_table() -> str:
    """Return the table of the federations' training settings."""
    headings = ["federation", "what it is", "parties per round", "rounds", "steps", "model",
                "test samples", "splits for tuning"]  # fmt: skip
    rows = [
        [
            f"`{spec.name}`", spec.title, "all" if spec.cohort is None else str(spec.cohort),
            str(spec.rounds), str(spec.steps), _format_model(spec),
            f"{spec.settings['test_share']:.0%}", str(len(spec.splits)),
        ]
        for spec in specs().values()
    ]  # fmt: skip
    return markdown_table(headings, rows)


def _format_model(spec: Spec) -> str:
    return f"MLP, {spec.hidden[0]} hidden units" if spec.model == "mlp" else spec.model


def grids_table() -> str:
    """Return the table of each method's grid: the number of combinations, and of those tried."""
    budget = load_grids()["budget"]["candidates"]
    spec = next(iter(specs().values()))
    methods: dict[str, list[str]] = {}
    for method in {**MAIN, **LAYERS}.values():
        methods.setdefault(method.grid, []).append(method.label)
    rows = []
    for grid, labels in methods.items():
        values = grid_of(spec, grid)
        size = math.prod(len(of_setting) for of_setting in values.values())
        text = " × ".join(f"{len(of_setting)} {name}" for name, of_setting in values.items())
        rows.append(["; ".join(labels), text, str(size), str(min(size, budget))])
    return markdown_table(["methods", "values", "combinations", "tried"], rows)


def summary_table(scores: Scores, families: str) -> str:
    """Return the mean score of each method on each federation; the best is bold."""
    federations = names_of(families)
    rows = [
        [LABELS[method], *(_format_mean(scores, name, method) for name in federations)]
        for method in FAMILIES[families]
    ]
    return markdown_table(["", *(f"`{name}`" for name in federations)], rows)


def _format_mean(scores: Scores, federation: str, method: str) -> str:
    record = scores[federation, method]
    text = format_score(record["mean"], record["better"])
    return f"**{text}**" if method in best_methods(scores, federation) else text


def comparison_table(comparisons: Sequence[Comparison]) -> str:
    """Return the gains: one row per pair of methods, one column per federation."""
    federations = list(dict.fromkeys(c.federation for c in comparisons))
    found = {(c.method, c.rival, c.federation): c for c in comparisons}
    pairs = dict.fromkeys((c.method, c.rival) for c in comparisons)
    rows = [
        [
            f"{LABELS[method]} against {LABELS[rival]}",
            *(format_gain(found[method, rival, name]) for name in federations),
        ]
        for method, rival in pairs
    ]
    return markdown_table(["", *(f"`{name}`" for name in federations)], rows)


def rivals_table(scores: Scores) -> str:
    """Return how often each method is at least as good as Ditto and APFL, as a table."""
    total = len(names_of("main"))
    rows = []
    for method in OURS:
        found = compare_with_rivals(scores, method)
        by_federation: dict[str, list[Comparison]] = {}
        for comparison in found:
            by_federation.setdefault(comparison.federation, []).append(comparison)
        both = sum(all(c.gain >= 0 for c in of_one) for of_one in by_federation.values())
        counts = [
            sum(c.gain >= 0 for c in found if c.rival == rival) for rival in RIVALS
        ]  # fmt: skip
        signs = [c.sign for c in found]
        rows.append(
            [
                LABELS[method], *(f"{count} of {total}" for count in (*counts, both)),
                str(signs.count(1)), str(signs.count(-1)),
                *(_largest_loss(found, better) for better in ("higher", "lower")),
            ]
        )  # fmt: skip
    headings = ["", *(f"at least as good as {LABELS[rival]}" for rival in RIVALS), "as both",
                f"significantly better, of {len(RIVALS) * total}",
                f"significantly worse, of {len(RIVALS) * total}",
                "largest loss, points", "largest loss, % of the error"]  # fmt: skip
    return markdown_table(headings, rows)


def _largest_loss(comparisons: Sequence[Comparison], better: str) -> str:
    worst = min((c for c in comparisons if c.better == better), key=lambda c: c.gain)
    return f"{format_gain(worst)} ({LABELS[worst.rival]}, `{worst.federation}`)"


def nearest_table(scores: Scores) -> str:
    """Return the gains of the two nearest methods over Ditto and APFL on each federation."""
    found = {
        (c.federation, c.method, c.rival): c
        for method in NEAREST
        for c in compare_with_rivals(scores, method)
    }
    columns = [(method, rival) for method in NEAREST for rival in RIVALS]
    rows = [
        [f"`{name}`", *(format_gain(found[name, *column]) for column in columns)]
        for name in names_of("main")
    ]
    headings = [f"{LABELS[method]}, against {LABELS[rival]}" for method, rival in columns]
    return markdown_table(["", *headings], rows)


def below_table(scores: Scores, parties: Sequence[Record]) -> str:
    """Return the table of parties that end worse than untrained, with seeds and diverged steps."""
    below = [record for record in parties if record["below"]]
    rows = []
    for (name, method), records in group_records(below, "federation", "method").items():
        record = scores[name, method]
        rows.append(
            [
                f"`{name}`", LABELS[method],
                f"{len(records)} of {record['parties_times_seeds']:g}",
                _format_parties(records), _total(records, "repeated"), _total(records, "gave_up"),
            ]
        )  # fmt: skip
    headings = ["federation", "method", "parties × seeds below untrained", "party (seeds)",
                "of them with repeated steps", "of them with given-up steps"]  # fmt: skip
    return markdown_table(headings, rows)


def _format_parties(records: Sequence[Record]) -> str:
    by_party = group_records(records, "party")
    if len(by_party) > 3:
        return f"{len(by_party)} parties"
    seeds = {
        party: ", ".join(f"{record['seed']:g}" for record in of_party)
        for (party,), of_party in by_party.items()
    }
    return "; ".join(f"{party:g} ({text})" for party, text in seeds.items())


def _total(records: Sequence[Record], column: str) -> str:
    return str(sum(record[column] > 0 for record in records))


def gave_up_table(scores: Scores) -> str:
    """Return the methods with parties whose steps were given up."""
    rows = [
        [
            f"`{name}`", LABELS[method],
            f"{record['parties_gave_up']:g} of {record['parties_times_seeds']:g}",
            f"{record['parties_below']:g}", format_score(record["mean"], record["better"]),
            format_score(record["untrained"], record["better"]),
        ]
        for (name, method), record in scores.items()
        if record["parties_gave_up"]
    ]  # fmt: skip
    return markdown_table(
        ["federation", "method", "parties × seeds with given-up steps", "below untrained",
         "mean score", "untrained"], rows
    )  # fmt: skip


def earlier_table() -> str:
    """Return the table of parties with infinite or very large errors in the earlier study."""
    rows = [
        [record["federation"], record["method"], f"{record['infinite']:g} of {record['parties']:g}",
         f"{record['above_million']:g}"]
        for record in read_csv(RESULTS / "earlier-silos.csv")
        if record["above_million"]
    ]  # fmt: skip
    headings = ["federation", "method", "parties with an infinite mean error", "above 10⁶"]
    return markdown_table(headings, rows)


def edges_table(scores: Scores) -> str:
    """Return the number of federations whose chosen value is at the edge of the grid, by setting."""
    rows = []
    for method in dict.fromkeys(method for _, method in scores):
        records = [record for (_, name), record in scores.items() if name == method]
        edges = [record["at_edge"].split(", ") for record in records if record["at_edge"]]
        counts: dict[str, int] = {}
        for name in sorted({name for names in edges for name in names}):
            counts[name] = sum(name in names for names in edges)
        text = ", ".join(f"{name} {count}" for name, count in counts.items())
        rows.append([LABELS[method], f"{len(edges)} of {len(records)}", text or "–"])
    return markdown_table(["", "federations with a value at the edge", "which, how often"], rows)


def federation_table(scores: Scores, spec: Spec) -> str:
    """Return the results of all methods on a federation, the best first."""
    best = best_methods(scores, spec.name)
    rows = []
    for method in rank_methods(scores, spec.name):
        record = scores[spec.name, method]
        mean, sd, median, worst = (
            format_score(record[column], record["better"])
            for column in ("mean", "sd", "median_party", "worst_party")
        )
        bold = "**" if method in best else ""
        counts = [
            record[column] for column in ("parties_below", "parties_repeated", "parties_gave_up")
        ]
        rows.append(
            [
                f"{bold}{LABELS[method]}{bold}", f"{bold}{mean}{bold} ± {sd}", median, worst,
                *(f"{count:g}" for count in counts), _mark_edges(record),
            ]
        )  # fmt: skip
    first = scores[spec.name, "local"]
    score = "accuracy in %" if first["better"] == "higher" else "mean squared error"
    headings = ["", score, "median party", "worst party", "below untrained", "repeated", "given up",
                "chosen settings"]  # fmt: skip
    total = f"{first['parties_times_seeds']:g}"
    untrained = format_score(first["untrained"], first["better"])
    return (
        f"### `{spec.name}`: {spec.title}\n\n{total} parties × seeds; untrained {untrained}.\n\n"
        f"{markdown_table(headings, rows)}"
    )


def _mark_edges(record: Record) -> str:
    edges = (record["at_edge"] or "").split(", ")
    settings = record["settings"].split(", ")
    return ", ".join(f"{text}†" if text.split(" = ")[0] in edges else text for text in settings)


def best_methods(scores: Scores, federation: str) -> list[str]:
    """Return the methods with the best mean score on a federation."""
    ranked = rank_methods(scores, federation)
    return [
        m for m in ranked if scores[federation, m]["mean"] == scores[federation, ranked[0]]["mean"]
    ]


def rank_methods(scores: Scores, federation: str) -> list[str]:
    """Return the methods, the best mean score first."""
    records = [record for (name, _), record in scores.items() if name == federation]
    sign = -1.0 if records[0]["better"] == "higher" else 1.0
    return [record["method"] for record in sorted(records, key=lambda r: sign * r["mean"])]


def format_score(score: float, better: str) -> str:
    """Return an accuracy in per cent, or an error.

    >>> format_score(0.85372, "higher"), format_score(2.155, "lower"), format_score(100.04, "lower")
    ('85.4', '2.15', '100.04')
    """
    return f"{100 * score:.1f}" if better == "higher" else f"{score:.2f}"
