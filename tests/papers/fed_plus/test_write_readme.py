"""papers/fed_plus/README.md shows exactly what the committed results say."""

import re
from pathlib import Path

import pytest
from papers.fed_plus.registry import STUDIES
from papers.fed_plus.results import read_csv, to_csv
from papers.fed_plus.specs import load_spec, spec_names
from papers.fed_plus.write_readme import fill_blocks, render_blocks

from fedplus.check import SettingError
from papers.fed_plus import schedule_table, table2_report

PAPER = Path(__file__).parents[3] / "papers" / "fed_plus"
PAGE, RESULTS = PAPER / "README.md", PAPER / "results"


def test_the_page_shows_the_committed_results():
    page = PAGE.read_text(encoding="utf-8")
    blocks = render_blocks(list(STUDIES.values()), RESULTS)
    assert blocks
    assert fill_blocks(page, blocks) == page, (
        "Run: .venv/bin/python -m papers.fed_plus.write_readme"
    )


def test_every_block_of_the_page_has_results():
    """No table remains from deleted results; a block without results says "Not run yet."."""
    page = PAGE.read_text(encoding="utf-8")
    places = dict(re.findall(r"<!-- ([\w-]+) -->\n?(.*?)<!-- end -->", page, re.DOTALL))
    blocks = render_blocks(list(STUDIES.values()), RESULTS)
    assert set(blocks) <= set(places)
    assert {places[name] for name in places.keys() - blocks.keys()} <= {"Not run yet.\n"}


SECTIONS = {
    "Table 2": "table2-", "On what it depends": "sensitivity-", "Theorems 1 and 2": "theory",
    "Figures 1 to 3": "portfolio-", "Figure 4": "figure4-", "Scaling": "figure4-",
    "A ψ for each layer": "layers-", "Attacks": "attacks", "Real silos": "silos-",
}  # fmt: skip
"""Heading (its beginning) ↦ beginning of the names of the specifications that it is about."""
COUNTS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
STATED = re.compile(
    r"\d+\s+rounds\s+of\s+\d+|batches\s+of\s+\d+|\d+\s+parties\s+(a|in\s+every)\s+round"
    r"|all\s+parties\s+(train|are\s+active|active)",
    re.IGNORECASE,
)


def prose(page):
    """Return the page without its generated blocks."""
    return re.sub(r"<!-- [\w-]+ -->.*?<!-- end -->", "", page, flags=re.DOTALL)


@pytest.mark.parametrize("name", spec_names())
def test_the_page_states_how_each_specification_is_trained(name):
    """Compare cohort, rounds, local work, batch size and seeds with the specification."""
    page = PAGE.read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", page, re.MULTILINE)
    cohort, rounds, work, batch_size, seeds = row.split(" | ")
    train = load_spec(name).train
    assert cohort == ("all" if train.cohort is None else str(train.cohort))
    assert int(rounds.split(";")[0].replace(",", "")) == train.rounds
    number, unit = work.split()
    done = train.steps if unit.startswith("step") else train.epochs
    assert float(number) == done
    assert int(batch_size) == train.batch_size
    first, _, last = seeds.partition(" to ")
    assert list(range(int(first), int(last or first) + 1)) == load_spec(name).seeds


def test_the_page_states_the_schedule_in_generated_tables_only():
    found = [match[0] for match in STATED.finditer(prose(PAGE.read_text(encoding="utf-8")))]
    assert found == []


def test_numbers_of_seeds_in_the_text_are_those_of_the_specifications():
    page = prose(PAGE.read_text(encoding="utf-8"))
    sections = re.split(r"^##+ ", page, flags=re.MULTILINE)[1:]
    counted = []
    for section in sections:
        (prefix,) = [p for heading, p in SECTIONS.items() if section.startswith(heading)] or [None]
        words = re.findall(r"\b(\w+)\s+seeds\b", section.lower())
        stated = {COUNTS[word] for word in words if word in COUNTS}
        if prefix and stated:
            assert stated == {len(load_spec(name).seeds) for name in spec_names(prefix)}, section[
                :40
            ]
            counted.append(prefix)
    assert len(counted) >= 5


def test_the_schedule_table_distinguishes_steps_and_epochs_all_and_some_parties():
    table = schedule_table.schedule_table(["silos-writers", "figure4-mnist", "theory"])
    assert "| `silos-writers` | all | 40 | 10 steps | 20 | 0 to 4 |" in table
    assert "| `figure4-mnist` | 10 | 100 | 20 epochs | 10 | 0 to 2 |" in table
    assert "| `theory` | all | 2,000 | 1 step | 50 | 0 |" in table


def test_pictures_exist():
    pictures = re.findall(r"\]\((results/[\w.-]+\.png)\)", PAGE.read_text(encoding="utf-8"))
    assert pictures
    for picture in pictures:
        assert (PAPER / picture).is_file(), picture


def test_a_block_without_a_place_is_rejected():
    with pytest.raises(SettingError, match="no place for b"):
        fill_blocks("<!-- a -->\n<!-- end -->", {"b": "text"})


def test_csv_round_trip(tmp_path):
    records = [{"method": "fedavg", "mean": 0.125, "note": None}]
    (tmp_path / "a.csv").write_text(to_csv(records))
    assert read_csv(tmp_path / "a.csv") == records


def record(settings, method, mean, paper):
    return {
        "data": "mnist-robust-n10", "settings": settings, "method": method, "mean": mean,
        "paper": paper,
    }  # fmt: skip


OTHERS = ("scaffold", "pfedme", "perfedavg", "apfl", "fedcomed+")


@pytest.mark.parametrize(
    ("stated", "tuned", "answer"),
    [
        (0.9, 0.9, "reproduced"),
        (0.8, 0.9, "reproduced when tuned"),
        (0.8, 0.8, "not reproduced"),
        (0.8, None, "not reproduced as stated; tuned: not all tried"),
        (None, 0.8, "not all of the paper's methods tried yet"),
    ],
)
def test_the_verdict_follows_from_the_numbers(stated, tuned, answer):
    """FedGeoMed+ against FedAvg+ at 0.85; local training, at 0.95, is not in the paper's table."""
    records = [
        record(kind, method, mean, paper)
        for kind, best in (("stated", stated), ("tuned", tuned))
        if best is not None
        for method, mean, paper in (
            ("local", 0.95, None), ("fedavg+", 0.85, 87.0), ("fedgeomed+", best, 91.5),
            *((other, 0.7, 80.0) for other in OTHERS),
        )
    ]  # fmt: skip
    assert table2_report.verdict(records) == answer


def test_a_missing_method_leaves_the_verdict_open():
    records = [record("stated", "fedavg+", 0.8, 87.0), record("stated", "fedgeomed+", 0.9, 91.5)]
    assert table2_report.verdict(records) == "not all of the paper's methods tried yet"


def test_lower_is_better_for_the_regression():
    records = [
        record("stated", method, mean, 1.0) | {"data": "synthetic-regression"}
        for method, mean in (
            ("fedavg+", 1100.0), ("fedgeomed+", 1000.0), *((other, 2000.0) for other in OTHERS)
        )
    ]  # fmt: skip
    assert table2_report.verdict(records) == "reproduced"
