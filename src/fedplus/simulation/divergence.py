"""Reports parties whose local steps diverge: an error if a run is stuck, otherwise a warning."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedplus._types import NumpyArray
from fedplus.work import RETRIES, RETRY_SCALE

MAX_STUCK_PARTIES = 10
"""So many parties without a good round in between stop a run, or more than half of fewer parties."""
MAX_NAMES = 5
"""The most parties that a message names."""


class DivergenceWarning(UserWarning):
    """The local steps of some parties were given up, because they diverged with small steps, too."""


class DivergedError(RuntimeError):
    """The local steps of all active parties diverged, in one round or in several in a row."""


class DivergenceMonitor:
    """Raises a ``DivergedError`` if a run makes no progress any more.

    That is so if all active parties gave up their steps in every one of the last rounds, and if these
    are ``MAX_STUCK_PARTIES`` different parties or more than half of all parties. One party cannot stop
    the run of others, even if it is alone in a round.

    Args:
        names: The parties' names.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._limit = min(len(names) // 2 + 1, MAX_STUCK_PARTIES)
        self._stuck: dict[int, set[int]] = {}
        """The parties that gave up since the last good round, by lane."""
        self._first_round: dict[int, int] = {}

    def observe(
        self, lane: int, cohort: NumpyArray, diverged: NumpyArray, begin: int,
        checkpoint: Path | None = None,
    ) -> None:  # fmt: skip
        """Take note of the next rounds of one lane.

        Args:
            lane: The lane.
            cohort: (T, K), the active parties of each round.
            diverged: (T, K), how often their steps diverged.
            begin: The number of rounds before these.
            checkpoint: The last good checkpoint.

        Raises:
            DivergedError: The run makes no progress any more.
        """
        gave_up: NumpyArray = np.all(diverged > RETRIES, axis=1)
        if not gave_up.any():
            self._stuck[lane] = set()
            return
        for t, parties in enumerate(cohort):
            stuck = self._stuck.setdefault(lane, set())
            if not gave_up[t]:
                stuck.clear()
                continue
            if not stuck:
                self._first_round[lane] = begin + t + 1
            stuck.update(parties.tolist())
            if len(stuck) >= self._limit:
                raise DivergedError(self._message(lane, begin + t + 1, checkpoint))

    def _message(self, lane: int, last: int, checkpoint: Path | None) -> str:
        first = self._first_round[lane]
        when = f"In round {last}" if first == last else f"In rounds {first} to {last}"
        names = [self._names[k] for k in sorted(self._stuck[lane])]
        hint = f" The last good checkpoint is {checkpoint}." if checkpoint else ""
        return (
            f"{when} the local steps of all active parties diverged, even with "
            f"{1 / RETRY_SCALE**RETRIES:g} times smaller steps: {join_names(names)}. The "
            "usual cause is a learning rate that is too high for the data: try a tenth of eta, or "
            "standardise the inputs (federation.standardise(); in the shell: --set standardise=true)."
            f"{hint}"
        )


def warn_of_given_up_steps(
    names: Sequence[str], figures: Mapping[str, NumpyArray], evaluations: Mapping[str, NumpyArray],
) -> None:  # fmt: skip
    """Warn if the local steps of some parties were given up, in a round or before an evaluation.

    Args:
        names: The parties' names.
        figures: The statistics of all rounds of one run.
        evaluations: Its evaluations.
    """
    gave_up = figures["diverged"] > RETRIES
    rounds = np.bincount(figures["cohort"][gave_up].ravel(), minlength=len(names))
    adaptations = np.zeros(len(names), int)
    if "adaptation_diverged" in evaluations:
        adaptations = (evaluations["adaptation_diverged"] > RETRIES).sum(axis=0)
    for counts, when in (
        (rounds, f"of {len(gave_up)} rounds of training"),
        (adaptations, f"of {len(evaluations['round'])} evaluations, in which parties adapt w̃"),
    ):
        order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        if len(order) == 0:
            continue
        shown = [f"{names[k]!r} in {counts[k]}" for k in order[:MAX_NAMES]]
        more = f" and {len(order) - MAX_NAMES} more parties" if len(order) > MAX_NAMES else ""
        warnings.warn(
            f"Local steps were given up because they diverged even with {1 / RETRY_SCALE**RETRIES:g} "
            f"times smaller steps: {', '.join(shown)} {when}{more}. The party kept the model at "
            "which they started. Try a smaller eta, or standardise the inputs.",
            DivergenceWarning,
            stacklevel=4,
        )


def join_names(names: Sequence[str]) -> str:
    """Return the first names, separated by commas."""
    return ", ".join(map(repr, names[:MAX_NAMES])) + (", …" if len(names) > MAX_NAMES else "")
