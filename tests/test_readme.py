import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]


def run_block(page):
    """The one Python block of a page that is not a doctest, as it stands."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    (block,) = (b for b in blocks if ">>>" not in b)
    found = {}
    exec(block, found)
    return found


def test_the_readmes_python_runs_and_serves_all_parties():
    """The party unlike the rest learns its own weights, the others theirs."""
    found = run_block("README.md")
    truth, models = found["truth"], found["run"].models[:, 1:]
    assert np.abs(models[:7] - truth).max() < 0.1
    assert np.abs(models[7] + truth).max() < 0.25


def test_the_quick_starts_own_loop_does_the_same():
    found = run_block("docs/quickstart.md")
    truth = found["truth"]
    assert np.abs(found["models"][:7] - truth).max() < 0.1
    assert np.abs(found["models"][7] + truth).max() < 0.25
