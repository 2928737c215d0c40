"""Checkpoints of a simulation: when the run is saved, and how it is resumed.

To resume a run, repeat the call with the same settings and ``resume=True``::

    simulate(..., rounds=100, checkpoint="folder")               # stopped or killed
    simulate(..., rounds=100, checkpoint="folder", resume=True)  # continues at the newest checkpoint

``Checkpointer.restore_or_start`` finds the newest checkpoint, checks that it belongs to this run and
restores the state and the records; ``save_if_due`` writes the next ones. The files themselves are read
and written by ``fedplus._checkpoint_file``.
"""

import sys
import time
import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedplus._checkpoint_file import (
    KEEP,
    Checkpoint,
    latest_checkpoint,
    list_checkpoints,
    load,
    require_same_settings,
    save,
    stable_repr,
)
from fedplus.check import require, require_integer
from fedplus.data.federation import Federation
from fedplus.simulation.engine import RunState
from fedplus.simulation.mesh import put_sharded, to_host
from fedplus.simulation.paging import Paging
from fedplus.simulation.pytree_arrays import from_arrays, matches_structure, to_arrays
from fedplus.simulation.recorder import Recorder
from fedplus.simulation.setup import Setup

DEFAULT_SECONDS = 60.0
"""Seconds between two checkpoints if ``checkpoint_every`` is not given."""
BACKOFF = "backoff"
"""Prefix of the arrays that say with which step sizes the parties begin the next round."""
SLOTS = "store/slots"
"""Name of the array that says where each party's row is in the store."""


class Checkpointer:
    """Saves a run to a folder and restores it; without a folder it does nothing."""

    def __init__(
        self, folder: Path | None, every: int | None, settings: dict[str, Any],
        paging: Paging | None = None, stored_fields: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._paging = paging
        self._stored_fields = stored_fields
        self.folder = folder
        self._every = every
        self._settings = settings
        self._saved_at = time.monotonic()
        self.latest: Path | None = None
        """The newest checkpoint."""

    @classmethod
    def create(
        cls, folder: str | Path | None, every: int | None, setup: Setup, recorded: dict[str, Any],
        paging: Paging | None = None,
    ) -> "Checkpointer":  # fmt: skip
        """Make a checkpointer from the arguments of ``simulate``.

        Args:
            folder: Where the checkpoints are, or None for a run without checkpoints.
            every: The number of rounds between two checkpoints, or None for about one a minute.
            setup: The run.
            recorded: The optional records (``path`` and ``objective``) that the run has.
            paging: The pages of the store, if the parties' models are in a file.

        Raises:
            SettingError: ``every`` is given without a folder, or is not a whole number ≥ 1.
        """
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
        stored_fields: tuple[str, ...] = ()
        if paging is not None:
            stored_fields = setup.runs[0][0].party_fields(setup.state.method)
        settings = describe_run(setup) | recorded | {"stored": paging is not None}
        return cls(Path(folder), every, settings, paging, stored_fields)

    def restore_or_start(
        self, state: RunState, recorder: Recorder, resume: bool
    ) -> tuple[int, RunState]:
        """Return the number of completed rounds and the state after them.

        If the folder has a checkpoint, these are its round and its state, and the recorder and the
        store are restored, too. Otherwise they are 0 and ``state``.

        Args:
            state: The initial state.
            recorder: The records of the run, still empty.
            resume: Whether the run may continue from a checkpoint.

        Raises:
            SettingError: The folder has a checkpoint and ``resume`` is False, or the checkpoint is
                damaged or belongs to a run with other settings.
        """
        require(
            not resume or self.folder is not None, "checkpoint", "None", "the folder to resume from"
        )
        if self.folder is None or not list_checkpoints(self.folder):
            return 0, state
        path = latest_checkpoint(self.folder)
        require(
            resume, "checkpoint", f"{path} of an earlier run", "an empty folder",
            "Continue that run with resume=True, or give another folder.",
        )  # fmt: skip
        checkpoint = load(path)
        require_same_settings(checkpoint, self._settings, path)
        recorder.restore(checkpoint.arrays)
        self.latest = path
        if self._paging is not None:
            self._paging.store.restore(checkpoint.arrays[SLOTS])
        fields = self._saved_fields(state)
        if "memory" in fields and not matches_structure(
            fields["memory"], checkpoint.arrays, "state/memory"
        ):
            del fields["memory"]  # Saved by another version or on another machine: it is rebuilt.

        def restore(template: Any, name: str) -> Any:
            return jax.tree.map(
                lambda new, old: put_sharded(new, old.sharding),
                from_arrays(template, checkpoint.arrays, name),
                template,
            )

        method = state.method._replace(**restore(fields, "state"))
        return checkpoint.round, RunState(method, restore(state.backoff, BACKOFF))

    def _saved_fields(self, state: RunState) -> dict[str, Any]:
        """Return the fields of the method's state that are saved here, because no store holds them."""
        fields: dict[str, Any] = state.method._asdict()
        return {name: leaf for name, leaf in fields.items() if name not in self._stored_fields}

    def next_stop(self, t: int) -> int:
        """Return the next round after ``t`` at which the run must pause for a checkpoint."""
        return sys.maxsize if self._every is None else (t // self._every + 1) * self._every

    def save_if_due(self, t: int, state: RunState, recorder: Recorder, *, is_last: bool) -> None:
        """Save after round ``t`` if a checkpoint is due or this round is the last one."""
        if self.folder is None:
            return
        by_time = self._every is None and time.monotonic() - self._saved_at > DEFAULT_SECONDS
        if is_last or by_time or (self._every is not None and t % self._every == 0):
            self._save(t, state, recorder)

    def save_interrupted(self, t: int, state: RunState, recorder: Recorder) -> str:
        """Save after an interrupt and return a message that says how to resume."""
        if self.folder is None:
            return f"Stopped after round {t}. To make a run resumable, give checkpoint=FOLDER."
        if t > 0:
            self._save(t, state, recorder)
        return f"Stopped after round {t}. To continue, call again with resume=True: {self.folder}"

    def _save(self, t: int, state: RunState, recorder: Recorder) -> None:
        assert self.folder is not None
        arrays = to_arrays(to_host(self._saved_fields(state)), "state") | recorder.arrays()
        arrays |= to_arrays(to_host(state.backoff), BACKOFF)
        if self._paging is not None:
            arrays[SLOTS] = self._paging.store.snapshot(KEEP)
        if jax.process_index() == 0:
            self.latest = save(self.folder, Checkpoint(t, self._settings, arrays))
        self._saved_at = time.monotonic()


def describe_run(setup: Setup) -> dict[str, Any]:
    """Return the settings that must be equal when a run is resumed, as JSON values."""
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
