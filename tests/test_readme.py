import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]


def test_the_readmes_python_runs_and_serves_all_parties():
    """The block as it stands: the party unlike the rest learns its own weights, the others theirs."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    found = {}
    exec(block, found)
    truth = found["truth"]
    assert np.abs(found["models"][:7] - truth).max() < 0.1
    assert np.abs(found["models"][7] + truth).max() < 0.25
