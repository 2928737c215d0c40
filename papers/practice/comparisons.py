"""Compare methods by paired differences over the seeds, with t-tests and Holm's correction."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from papers.fed_plus.results import Record
from papers.practice.federations import load_grids, specs
from papers.practice.methods import MAIN

from fedplus.report.tables import LEVEL, holm_correction

Scores = Mapping[tuple[str, str], Record]
"""(federation, method) ↦ its row in ``scores.csv``."""

RIVALS = ("ditto", "apfl")
OURS = tuple(name for name in MAIN if name not in (*RIVALS, "local", "fedavg"))
"""The settings of Algorithm 1 that personalise."""
NEAREST = ("fedgeomed+warm", "mr-mtl-gm-warm")
"""The two methods whose differences to the rivals the page shows in full."""
JOINING = (("fedgeomed+", "fedgeomed+first"), ("fedgeomed+quarter", "fedgeomed+first-quarter"))
WARM_UP = (
    ("fedgeomed+quarter", "fedgeomed+"), ("fedgeomed+warm", "fedgeomed+"),
    ("mr-mtl-warm", "mr-mtl"), ("mr-mtl-gm-warm", "mr-mtl-gm"),
)  # fmt: skip
PRIVATE = (
    ("fedgeomed+head", "fedgeomed+warm"), ("fedper", "fedavg"), ("fedrep", "fedavg"),
    ("fedbabu", "fedavg"), ("lg-fedavg", "fedavg"),
)  # fmt: skip


class Comparison(NamedTuple):
    """How much better a method is than a rival on a federation."""

    federation: str
    method: str
    rival: str
    better: str
    gain: float
    """The mean over the seeds: points of accuracy, or per cent of the rival's mean error."""
    p: float
    """From a paired t-test over the seeds, with Holm's correction over the table."""

    @property
    def sign(self) -> int:
        """+1 for a significant gain, −1 for a significant loss, else 0."""
        return int(np.sign(self.gain)) if self.p < LEVEL else 0


def seed_means(record: Record) -> Any:
    """Return the mean score over the parties of each seed, in the order of the seeds."""
    return np.array([record[f"seed_{seed}"] for seed in load_grids()["budget"]["seeds"]])


def gains(record: Record, rival: Record) -> Any:
    """Return the gain over a rival under each seed, in points or per cent; see ``Comparison``."""
    ours, theirs = seed_means(record), seed_means(rival)
    if record["better"] == "higher":
        return 100 * (ours - theirs)
    return 100 * (theirs - ours) / theirs.mean()


def compare(scores: Scores, pairs: Sequence[tuple[str, str, str]]) -> list[Comparison]:
    """Compare each (federation, method, rival); Holm's correction is over all of them.

    Pairs with equal scores under all seeds have p = 1 and do not count for the correction.
    """
    found = [gains(scores[f, method], scores[f, rival]) for f, method, rival in pairs]
    p_values = holm_correction(
        {i: paired_t_test(values) for i, values in enumerate(found) if values.any()}
    )
    return [
        Comparison(*pair, scores[pair[:2]]["better"], float(values.mean()), p_values.get(i, 1.0))
        for i, (pair, values) in enumerate(zip(pairs, found, strict=True))
    ]


def compare_with_rivals(scores: Scores, method: str) -> list[Comparison]:
    """Compare a method with Ditto and APFL on all federations; Holm's correction is over these."""
    return compare(scores, pairs_on([(method, rival) for rival in RIVALS], names_of("main")))


def pairs_on(
    pairs: Sequence[tuple[str, str]], federations: Sequence[str]
) -> list[tuple[str, str, str]]:
    """Return (federation, method, rival) for each pair of methods on each federation."""
    return [(name, *pair) for pair in pairs for name in federations]


def names_of(families: str) -> list[str]:
    """Return the federations on which the methods of "main" or "layers" are compared."""
    return [spec.name for spec in specs().values() if spec.families == families]


def tenths() -> list[str]:
    """Return the federations in which only a part of the parties trains in a round."""
    return [spec.name for spec in specs().values() if spec.cohort is not None]


def paired_t_test(differences: Any) -> float:
    """Return the two-sided p-value of the hypothesis that the mean difference is 0.

    >>> round(paired_t_test(np.array([1.0, 2.0, 3.0])), 3)
    0.074
    """
    from scipy.stats import ttest_1samp

    if np.ptp(differences) == 0:
        return 0.0 if differences[0] else 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # SciPy warns if they are nearly equal.
        return float(ttest_1samp(differences, 0.0).pvalue)


def format_gain(comparison: Comparison | None) -> str:
    """Return the gain with its unit; an asterisk says that it is significant.

    >>> format_gain(Comparison("school", "a", "b", "lower", -2.66, 0.01)), format_gain(None)
    ('−2.7%*', '–')
    """
    if comparison is None:
        return "–"
    if comparison.gain == 0:
        return "0"
    unit = "" if comparison.better == "higher" else "%"
    star = "*" if comparison.sign else ""
    digits = 2 if abs(comparison.gain) < 1 else 1
    return f"{comparison.gain:+.{digits}f}{unit}{star}".replace("-", "−")
