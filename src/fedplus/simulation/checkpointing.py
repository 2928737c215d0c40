"""When a run is saved, and how it goes on."""

import sys
import time
import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedplus._checkpoint import (
    KEEP,
    Checkpoint,
    checkpoints_in,
    latest_checkpoint,
    load,
    require_same,
    save,
    stable_repr,
)
from fedplus.check import require, require_integer
from fedplus.data.federation import Federation
from fedplus.simulation.mesh import put_sharded, to_host
from fedplus.simulation.paging import Paging
from fedplus.simulation.pytree_arrays import from_arrays, matches_structure, to_arrays
from fedplus.simulation.recorder import Recorder
from fedplus.simulation.setup import Setup

SECONDS = 60.0
"""Between two checkpoints, where nobody says how many rounds."""


SLOTS = "store/slots"


class Checkpointing:
    """Keeps checkpoints of a run in a folder; without a folder it keeps none."""

    def __init__(
        self, folder: Path | None, every: int | None, settings: dict[str, Any],
        pages: Paging | None = None, in_store: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._pages = pages
        self._in_store = in_store
        self.folder = folder
        self._every = every
        self._settings = settings
        self._saved_at = time.monotonic()
        self.saved: Path | None = None
        """The newest checkpoint."""

    @classmethod
    def of(
        cls, folder: str | Path | None, every: int | None, setup: Setup, recorded: dict[str, Any],
        pages: Paging | None = None,
    ) -> "Checkpointing":  # fmt: skip
        """From what a person gives; ``recorded`` says what is recorded on request."""
        if every is not None:
            require_integer("checkpoint_every", every)
        require(
            every is None or folder is not None,
            "checkpoint",
            "None",
            "a folder to keep checkpoints in",
        )
        if folder is None:
            return cls(None, None, {})
        in_store = () if pages is None else setup.runs[0][0].per_party
        settings = describe_run(setup) | recorded | {"stored": pages is not None}
        return cls(Path(folder), every, settings, pages, in_store)

    def begin(self, state: Any, book: Recorder, resume: bool) -> tuple[int, Any]:
        """Rounds done and the state then; from the start if there is no checkpoint yet."""
        require(
            not resume or self.folder is not None, "checkpoint", "None", "the folder to resume from"
        )
        if self.folder is None or not checkpoints_in(self.folder):
            return 0, state
        require(
            resume, "checkpoint", f"{latest_checkpoint(self.folder)} of an earlier run",
            "an empty folder",
            "Go on with that run (resume=True), or give another folder.",
        )  # fmt: skip
        path = latest_checkpoint(self.folder)
        found = load(path)
        require_same(found, self._settings, path)
        book.restore(found.arrays)
        self.saved = path
        if self._pages is not None:
            self._pages.store.restore(found.arrays[SLOTS])
        here = self._in_checkpoint(state)
        if "memory" in here and not matches_structure(here["memory"], found.arrays, "state/memory"):
            del here["memory"]  # Another version's, or another machine's: it is built anew.
        restored = jax.tree.map(
            lambda new, old: put_sharded(new, old.sharding),
            from_arrays(here, found.arrays, "state"),
            here,
        )
        return found.round, state._replace(**restored)

    def _in_checkpoint(self, state: Any) -> dict[str, Any]:
        """The fields of the state that a store does not hold."""
        fields: dict[str, Any] = state._asdict()
        return {name: leaf for name, leaf in fields.items() if name not in self._in_store}

    def next_stop(self, t: int) -> int:
        """The round at which the run must pause for a checkpoint."""
        return sys.maxsize if self._every is None else (t // self._every + 1) * self._every

    def offer(self, t: int, state: Any, book: Recorder, *, last: bool) -> None:
        """Save if it is time to."""
        if self.folder is None:
            return
        by_time = self._every is None and time.monotonic() - self._saved_at > SECONDS
        if last or by_time or (self._every is not None and t % self._every == 0):
            self._save(t, state, book)

    def interrupted(self, t: int, state: Any, book: Recorder) -> str:
        """Save, and say how to go on."""
        if self.folder is None:
            return f"Stopped after round {t}. With checkpoint=... a run can go on."
        if t > 0:
            self._save(t, state, book)
        return f"Stopped after round {t}. Go on with resume=True: {self.folder}"

    def _save(self, t: int, state: Any, book: Recorder) -> None:
        assert self.folder is not None
        arrays = to_arrays(to_host(self._in_checkpoint(state)), "state") | book.arrays()
        if self._pages is not None:
            arrays[SLOTS] = self._pages.store.keep(KEEP)
        if jax.process_index() == 0:
            self.saved = save(self.folder, Checkpoint(t, self._settings, arrays))
        self._saved_at = time.monotonic()


def describe_run(setup: Setup) -> dict[str, Any]:
    """What must be the same when a run goes on, in words and numbers."""
    plan, inputs = setup.plan, setup.inputs
    return {
        "methods": [stable_repr(algorithm) for algorithm, _ in setup.runs],
        "seeds": [seed for _, seed in setup.runs],
        "model": plan.model.name,
        "parameters": int(setup.lane.w_first.shape[-1]),
        "federation": _fingerprint(setup.federation),
        "batch_size": plan.batch_size,
        "cohort": stable_repr(inputs.cohort),
        "steps": _checksum(inputs.effort),
        "weights": _checksum(inputs.weights),
        "stragglers": stable_repr(plan.stragglers),
        "faults": stable_repr(plan.faults),
        "each": plan.each,
        "precision": str(setup.lane.w_first.dtype),
    }


def _checksum(tree: Any) -> str:
    crc = 0
    for leaf in jax.tree.leaves(tree):
        crc = zlib.crc32(np.ascontiguousarray(leaf).data, crc)
    return f"{crc:08x}"


def _fingerprint(federation: Federation) -> str:
    return f"{federation.name}, {federation.parties} parties, {_checksum(federation.train)}"
