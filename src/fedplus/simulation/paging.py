"""Rounds and evaluations with the parties' models in a file; only one page of rows is in memory."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import Array, NumpyArray
from fedplus.check import require
from fedplus.simulation.engine import Inputs, Lane, Plan, RunState, keys_of_round, run_rounds
from fedplus.simulation.round_log import RoundLog
from fedplus.simulation.setup import Setup
from fedplus.simulation.store import PartyStore


def open_paging(setup: Setup, folder: Path, resume: bool) -> "Paging":
    """Open or create the store in a folder and return its pages.

    Raises:
        SettingError: The folder holds the store of an earlier run and ``resume`` is False.
    """
    path = folder / "parties.bin"
    require(
        resume or not path.exists(), "store", f"{path} of an earlier run", "an empty folder",
        "Continue that run with resume=True, or give another folder.",
    )  # fmt: skip
    state = setup.state.method
    fields = setup.runs[0][0].party_fields(state)
    initial_rows = {name: np.asarray(getattr(state, name)[0]) for name in fields}
    return Paging(setup, PartyStore(path, setup.plan.parties, initial_rows))


class Paging:
    """Moves rows between a store and a state that holds one page of them."""

    def __init__(self, setup: Setup, store: PartyStore) -> None:
        self.store = store
        self._setup = setup
        self.rows = setup.plan.state_rows
        """The number of parties on a page."""
        self.max_rounds = max(1, self.rows // setup.inputs.cohort.size)
        """The number of rounds whose cohorts certainly fit on a page."""

    def run_rounds(self, state: RunState, begin: int, end: int) -> tuple[RunState, RoundLog]:
        """Run rounds ``begin``, ..., ``end`` − 1: load their parties' rows, train, store them."""
        setup = self._setup
        times = jnp.arange(begin, begin + self.max_rounds, dtype=jnp.int32)
        cohorts = _draw_cohorts(setup.plan, setup.inputs, setup.lane, times)
        parties = np.unique(np.asarray(cohorts)[: end - begin])
        row_of_party = np.zeros(setup.plan.parties, np.int32)
        row_of_party[parties] = np.arange(len(parties))
        inputs = setup.inputs._replace(row_of_party=jnp.asarray(row_of_party))
        state = state._replace(method=self.load_page(state.method, parties))
        state, log = run_rounds(
            setup.plan, inputs, setup.lane, state, np.int32(begin), np.int32(end)
        )
        fields = self._setup.runs[0][0].party_fields(state.method)
        rows = {name: np.asarray(getattr(state.method, name))[: len(parties)] for name in fields}
        self.store.write(parties, rows)
        return state, log

    def load_page(self, state: Any, parties: NumpyArray) -> Any:
        """Return the state with the rows of these parties, followed by rows of zeros."""
        padding = self.rows - len(parties)
        page = {
            name: jax.device_put(
                np.concatenate([rows, np.zeros((padding, *rows.shape[1:]), rows.dtype)]),
                getattr(state, name).sharding,
            )
            for name, rows in self.store.read(parties).items()
        }
        return state._replace(**page)

    def iter_pages(self, state: Any) -> Iterator[tuple[NumpyArray, Any]]:
        """Yield the parties of each page and the state with their rows, until all parties are done."""
        for first in range(0, self._setup.plan.parties, self.rows):
            parties = np.arange(first, min(first + self.rows, self._setup.plan.parties))
            yield parties, self.load_page(state, parties)


@partial(jax.jit, static_argnames="plan")
def _draw_cohorts(plan: Plan, inputs: Inputs, lane: Lane, times: Array) -> Array:
    """Return the cohorts (rounds, K) of these rounds."""

    def draw(t: Array) -> Array:
        return inputs.cohort(keys_of_round(lane.key, t)[0], t, plan.parties)[0]

    cohorts: Array = jax.lax.map(draw, times)
    return cohorts
