"""The code and the figures in README.md and the docs are true."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedplus.experiments.defaults import default_training

ROOT = Path(__file__).parents[1]


def run_block(page):
    """Run the only Python block of a page that is not a doctest, and return its variables."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    (block,) = (b for b in blocks if ">>>" not in b)
    variables = {}
    exec(block, variables)
    return variables


def test_the_readmes_python_runs_and_serves_all_parties():
    """The party that differs learns its own weights, and the others learn the common ones."""
    found = run_block("README.md")
    truth, models = found["truth"], found["run"].models[:, 1:]
    assert np.abs(models[:7] - truth).max() < 0.1
    assert np.abs(models[7] + truth).max() < 0.25


def test_the_handwritten_loop_of_the_quick_start_learns_the_same_weights():
    found = run_block("docs/quickstart.md")
    truth = found["truth"]
    assert np.abs(found["models"][:7] - truth).max() < 0.1
    assert np.abs(found["models"][7] + truth).max() < 0.25


def statements():
    return runpy.run_path(str(ROOT / "benchmarks" / "statements.py"))


@pytest.mark.parametrize("page", ["README.md", "docs/speed.md"])
def test_figures_of_speed_are_those_of_the_committed_results(page):
    expected = statements()["pages"]()[page]
    assert (ROOT / page).read_text(encoding="utf-8") == expected, (
        "Run: .venv/bin/python -m benchmarks.statements"
    )


@pytest.mark.parametrize("page", ["README.md", "docs/speed.md"])
def test_no_ratio_of_speed_is_written_by_hand(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    by_hand = re.sub(r"<!-- [\w-]+ -->\n.*?<!-- end -->", "", text, flags=re.DOTALL)
    by_hand = by_hand.replace("30 times further away", "")  # This is a distance of data.
    assert re.findall(r"[\d.]+ times\b[^.]*", by_hand) == []


def test_every_table_of_speed_is_printed_from_a_committed_result():
    printed = set()
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
        if path.name not in ("loading-cpu.json", "lstm-cpu.json"):  # These have no table.
            command = [sys.executable, str(ROOT / "benchmarks" / "table.py"), str(path)]
            found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
            printed |= set(found.stdout.splitlines())
    page = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in page if line.startswith("|") and line not in printed] == []


def test_ratios_are_rounded_down():
    at_least = statements()["at_least"]
    rounded = [at_least(ratio) for ratio in (12.99, 5.05, 40.4, 1.29, 7.0, 123.4)]
    assert rounded == ["12", "5", "40", "1.2", "7", "120"]


def test_the_readme_says_how_long_the_demo_trains():
    stated = re.search(r"(\d+) rounds of (\d+) steps", (ROOT / "README.md").read_text())
    usual = default_training("digits-robust")
    assert (int(stated[1]), int(stated[2])) == (usual.rounds, usual.steps)
