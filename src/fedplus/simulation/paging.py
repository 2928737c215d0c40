"""Rounds and evaluations with the parties' models in a file: only the rows at work are in memory."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import Array, Host
from fedplus.check import require
from fedplus.simulation.engine import Inputs, Lane, Plan, keys_of_round, run_rounds
from fedplus.simulation.round_log import RoundLog
from fedplus.simulation.setup import Setup
from fedplus.simulation.store import PartyStore


def open_paging(setup: Setup, folder: Path, resume: bool) -> "Paging":
    """Pages of a store in that folder."""
    path = folder / "parties.bin"
    require(
        resume or not path.exists(), "store", f"{path} of an earlier run", "an empty folder",
        "Go on with that run (resume=True), or give another folder.",
    )  # fmt: skip
    state, fields = setup.state, setup.runs[0][0].per_party
    first = {name: np.asarray(getattr(state, name)[0]) for name in fields}
    return Paging(setup, PartyStore(path, setup.plan.parties, first))


class Paging:
    """A state whose rows of parties are a page of a store."""

    def __init__(self, setup: Setup, store: PartyStore) -> None:
        self.store = store
        self._setup = setup
        self.rows = setup.plan.rows
        """Parties that a page holds."""
        self.most_rounds = max(1, self.rows // setup.inputs.cohort.size)
        """How many rounds surely fit on a page."""

    def play(self, state: Any, begin: int, end: int) -> tuple[Any, RoundLog]:
        """Rounds ``begin`` to ``end`` − 1."""
        setup = self._setup
        times = jnp.arange(begin, begin + self.most_rounds, dtype=jnp.int32)
        cohorts = _cohorts(setup.plan, setup.inputs, setup.lane, times)
        parties = np.unique(np.asarray(cohorts)[: end - begin])
        row_of = np.zeros(setup.plan.parties, np.int32)
        row_of[parties] = np.arange(len(parties))
        inputs = setup.inputs._replace(row_of=jnp.asarray(row_of))
        state = self.turned(state, parties)
        state, told = run_rounds(
            setup.plan, inputs, setup.lane, state, np.int32(begin), np.int32(end)
        )
        fields = self._setup.runs[0][0].per_party
        rows = {name: np.asarray(getattr(state, name))[: len(parties)] for name in fields}
        self.store.write(parties, rows)
        return state, told

    def turned(self, state: Any, parties: Host) -> Any:
        """The state with these parties' rows on the page."""
        rows = self.store.read(parties)
        idle = self.rows - len(parties)
        put = {
            name: jax.device_put(
                np.concatenate([found, np.zeros((idle, *found.shape[1:]), found.dtype)]),
                getattr(state, name).sharding,
            )
            for name, found in rows.items()
        }
        return state._replace(**put)

    def all_of(self, state: Any) -> Iterator[tuple[Host, Any]]:
        """Page by page, all parties and the state that holds their rows."""
        for first in range(0, self._setup.plan.parties, self.rows):
            parties = np.arange(first, min(first + self.rows, self._setup.plan.parties))
            yield parties, self.turned(state, parties)


@partial(jax.jit, static_argnames="plan")
def _cohorts(plan: Plan, inputs: Inputs, lane: Lane, times: Array) -> Array:
    def one(t: Array) -> Array:
        return inputs.cohort(keys_of_round(lane.key, t)[0], t, plan.parties)[0]

    cohorts: Array = jax.lax.map(one, times)
    return cohorts
