"""Holds parties out of the training, and lets them join afterwards: the table ``[new_parties]``."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedplus import presets
from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import require, suggest
from fedplus.data.federation import Federation
from fedplus.experiments.round_lines import json_numbers
from fedplus.experiments.spec import NewParties, Spec, Train
from fedplus.experiments.toml_source import TomlSource
from fedplus.simulation import Run
from fedplus.simulation.evaluate import evaluate_parties, split_into_blocks
from fedplus.simulation.join import Joined, LocalTraining, join_parties
from fedplus.simulation.setup import init_model

MIN_TRAINED = 2
"""The smallest number of parties that must remain for the training."""
HOLD_OUT = 0x6E6577
"""Makes the choice of new parties independent of other random numbers of the seed."""


def hold_out(
    spec: Spec, federation: Federation, seed: int, source: TomlSource
) -> tuple[Federation, Federation]:
    """Return the federation of the parties that train, and that of the new parties.

    The choice depends on the seed alone, so it is the same for all methods. If the inputs are
    standardised over all parties, the mean and the deviation become those of the parties that train.

    Raises:
        SettingError: A setting is not valid. The message names the file and the line.
    """
    table = spec.new_parties
    assert table is not None
    with source.locate_errors("new_parties"):
        require(
            (table.count is None) != (table.names is None), "new_parties",
            "neither" if table.count is None else "both", "given by either count or names",
            'E.g. count = 5, or names = ["north"].',
        )  # fmt: skip
        require(
            table.steps is not None, "new_parties.steps", "none",
            "given, unless train.steps is one number for all parties",
            "E.g. steps = 20 (in the shell: --set new_parties.steps=20).",
        )  # fmt: skip
        new = _choose(table, federation, seed)
    rest = sorted(set(range(federation.parties)) - set(new))
    with source.locate_errors("train"):
        _require_one_per_party(spec.train, len(rest), len(new))
    trained, held_out = federation.select(rest), federation.select(new)
    preprocessing = federation.info.preprocessing
    is_fixed = spec.data.name is not None and not spec.data.standardise
    if is_fixed or preprocessing is None or not preprocessing.is_standardised_over_parties:
        return trained, held_out
    return trained.standardise(), held_out.standardise(like=trained)


def _choose(table: NewParties, federation: Federation, seed: int) -> list[int]:
    """Return the indices of the new parties, in increasing order."""
    n, names = federation.parties, federation.names
    most = n - MIN_TRAINED
    remain = f"so that at least {MIN_TRAINED} of the {n} parties remain"
    if table.names is None:
        count = table.count or 0
        require(count <= most, "new_parties.count", count, f"from 1 to {most}, {remain}")
        rng = np.random.default_rng((seed, HOLD_OUT))
        return sorted(rng.choice(n, count, replace=False).tolist())
    for name in table.names:
        advice = suggest(name, names) or f"The first parties: {', '.join(names[:5])}."
        require(name in names, "new_parties.names", repr(name), "names of parties", advice)
    is_distinct = len(set(table.names)) == len(table.names)
    require(is_distinct, "new_parties.names", table.names, "different names")
    is_valid = len(table.names) <= most
    require(is_valid, "new_parties.names", len(table.names), f"at most {most} names, {remain}")
    return sorted(names.index(name) for name in table.names)


def _require_one_per_party(train: Train, trained: int, new: int) -> None:
    """Require that lists over the parties have one number for each party that trains."""
    for field in ("steps", "epochs", "weights"):
        value = getattr(train, field)
        require(
            not isinstance(value, list) or len(value) == trained, f"train.{field}",
            f"{len(value) if isinstance(value, list) else 1} numbers",
            f"{trained} numbers, one per party that trains",
            f"The {new} new parties have none.",
        )  # fmt: skip


def join_new_parties(run: Run, new: Federation, spec: Spec) -> dict[str, Any]:
    """Let the new parties join a finished run; return the content of ``new_parties.json``.

    For comparison, each of them also trains alone, by local SGD from the first model with the same
    steps and rounds, unless the specification turns local training off.
    """
    table, batch_size = spec.new_parties, spec.train.batch_size
    assert table is not None
    assert table.steps is not None
    assert batch_size is not None
    training = LocalTraining(table.steps, table.rounds, batch_size)
    blocks, rows = split_into_blocks(new.test)

    def join(algorithm: AbstractAlgorithm[Any], state: Any) -> Joined:
        return join_parties(
            algorithm, state, run.model, new.train, training, rounds_before=run.rounds,
            seed=run.seed,
        )  # fmt: skip

    def score(joined: Joined) -> list[float | None]:
        models = jnp.asarray(joined.models)
        return json_numbers(evaluate_parties(run.model, rows, blocks, models).score)

    joined = join(run.algorithm, run.state) if run.algorithm.can_join else None
    local = None
    if spec.reference.local:
        alone = presets.local_sgd(eta=spec.reference.eta or 0.0)
        w_first = init_model(run.model, jax.random.key(run.seed))[1]
        local = join(alone, alone.init(w_first, new.parties))
    return {
        "names": list(new.names),
        "steps": table.steps,
        "rounds": table.rounds,
        "scores": None if joined is None else score(joined),
        "local": None if local is None else score(local),
        "given_up": None if joined is None else joined.given_up.tolist(),
    }
