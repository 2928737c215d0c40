"""The federations of the study: their specifications in ``grids.toml``, data, models and faults."""

import functools
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedplus import models
from fedplus.check import lookup
from fedplus.data import load
from fedplus.data.federation import Federation
from fedplus.data.sets import digits
from fedplus.models import Model, ravel
from fedplus.simulation.evaluate import evaluate_parties, split_into_blocks
from fedplus.simulation.faults import Fault, sign_flip

FOLDER = Path(__file__).parent
GRIDS = FOLDER / "grids.toml"
DATA = FOLDER / ".data"
DIGITS_FILE = DATA / "digits.npz"
"""scikit-learn's digits, for a machine without scikit-learn."""


class Spec(NamedTuple):
    """A federation and its training settings; the fields are those of ``grids.toml``."""

    name: str
    title: str
    data: str
    settings: dict[str, Any]
    model: str
    rounds: int
    steps: int
    splits: list[int]
    eta: float
    delta: float
    hidden: tuple[int, ...] = ()
    cohort: int | None = None
    batch_size: int = 20
    attackers: int = 0
    attack_scale: float = 0.0
    families: str = "main"

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The attack of the last parties, in the test only."""
        if not self.attackers:
            return ()
        parties = self.settings["parties"]
        bad = tuple(range(parties - self.attackers, parties))
        return (Fault(bad, sign_flip(self.attack_scale)),)

    def quick(self) -> "Spec":
        """Return the specification of a trial: few rounds, one split."""
        return self._replace(rounds=4, splits=self.splits[:1])


@functools.cache
def load_grids() -> dict[str, Any]:
    """Read ``grids.toml``."""
    return tomllib.loads(GRIDS.read_text(encoding="utf-8"))


@functools.cache
def specs() -> dict[str, Spec]:
    """Return the specification of each federation, by name."""
    tables = load_grids()["federations"]
    found = {}
    for name, table in tables.items():
        fields = {**tables[table["like"]], **table} if "like" in table else dict(table)
        fields.pop("like", None)
        fields["hidden"] = tuple(fields.get("hidden", ()))
        found[name] = Spec(name, **fields)
    return found


def load_federation(spec: Spec, seed: int, validation_share: float = 0.0) -> Federation:
    """Load the parties' samples, split with a seed."""
    if spec.data.startswith("digits"):
        _use_packed_digits()
    return load(spec.data, seed=seed, validation_share=validation_share, **spec.settings)


def _use_packed_digits() -> None:
    """Take the digits from ``DIGITS_FILE`` if scikit-learn is not installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        digits._digits = _packed_digits


@functools.cache
def _packed_digits() -> tuple[Any, Any]:
    with np.load(DIGITS_FILE) as arrays:
        return arrays["x"], arrays["y"]


@functools.cache
def _mlp(inputs: int, classes: int, hidden: tuple[int, ...]) -> Model:
    return models.mlp(inputs, classes, hidden=hidden)


def make_model(spec: Spec, federation: Federation) -> Model:
    """Return the model of a specification; equal sizes share an object, which compiles once."""
    inputs = int(np.prod(federation.train.x.shape[1:]))
    if spec.model == "linear":
        return models.linear(inputs)
    classes = len(federation.info.classes)
    if spec.model == "mlp":
        return _mlp(inputs, classes, spec.hidden)
    lookup(spec.model, {"logistic": None}, "model")
    return models.logistic(inputs, classes)


def layout_of(model: Model) -> Any:
    """Return the name and size of each parameter of a model."""
    return ravel(model.init(jax.random.key(0))).layout


def untrained_scores(federation: Federation, model: Model, seed: int) -> Any:
    """Return each party's test score, shape (N,), of the initial model of a run with this seed."""
    key, _ = jax.random.split(jax.random.key(seed))
    blocks, rows = split_into_blocks(federation.test)
    w = ravel(model.init(key)).w
    return np.asarray(evaluate_parties(model, rows, blocks, w[None]).score)
