"""Checks before any training: argument types, and whether the model fits the data."""

from typing import Any

import jax
import numpy as np

from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import SettingError, require
from fedplus.data.federation import Federation
from fedplus.data.split import Split
from fedplus.models import BINARY, CLASSIFICATION, REGRESSION, Model


def require_types(algorithm: Any, federation: Any, model: Any) -> None:
    """Require an algorithm, a federation and a model, in this order."""
    for name, value, kind, advice in (
        ("algorithm", algorithm, AbstractAlgorithm, "E.g. presets.fedavg(eta=0.02)."),
        ("federation", federation, Federation, "Federation.from_arrays([(x, y), ...]) makes one."),
        ("model", model, Model, "E.g. models.logistic(784, 10)."),
    ):
        require(isinstance(value, kind), name, type(value).__name__, f"a {kind.__name__}", advice)


def require_fit(federation: Federation, model: Model) -> None:
    """Require that the model takes the parties' inputs, and that its outputs fit their labels."""
    require_samples(federation)
    x = federation.train.x
    struct: Any = jax.ShapeDtypeStruct  # Untyped in JAX.
    batch = struct((2, *x.shape[1:]), jax.dtypes.canonicalize_dtype(x.dtype))
    try:
        outputs = jax.eval_shape(
            lambda batch: model.apply(model.init(jax.random.key(0)), batch), batch
        )
    except (TypeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise SettingError(
            f"model {model.name!r} must take inputs of shape {x.shape[1:]}, got an error: {reason}"
        ) from error
    shape = tuple(getattr(outputs, "shape", ()))
    require(
        len(shape) >= 1 and shape[0] == 2, f"model {model.name!r}",
        f"outputs of shape {shape} for 2 samples",
        "a function to outputs (B, ...), one row per sample",
    )  # fmt: skip
    for part in ("train", "test", "validation"):
        split = getattr(federation, part)
        if split is not None:
            _require_labels(split, part, model, shape, federation.names)


def require_samples(federation: Federation) -> None:
    """Require that every party has at least one training sample and one test sample."""
    for part in ("train", "test"):
        size = getattr(federation, part).size
        empty = [federation.names[k] for k in np.flatnonzero(size < 1)[:5]]
        require(not empty, f"{part} samples of party {', '.join(empty)}", "none", "at least one")


def _require_labels(
    split: Split, part: str, model: Model, outputs: tuple[int, ...], names: tuple[str, ...]
) -> None:
    y, task = split.y, model.task
    if task == REGRESSION:
        ok = int(np.prod(outputs[1:])) == int(np.prod(y.shape[1:]))
        require(
            ok, f"model {model.name!r}", f"outputs of shape {outputs[1:]} for one sample",
            f"one with outputs like the {part} labels, of shape {y.shape[1:]}",
        )  # fmt: skip
        return
    if task not in (CLASSIFICATION, BINARY):
        return
    classes = outputs[-1] if task == CLASSIFICATION else 2
    is_whole = bool(np.issubdtype(y.dtype, np.integer) or np.all(y == np.round(y)))
    allowed = f"whole numbers from 0 to {classes - 1}, the classes of model {model.name!r}"
    require(
        is_whole and y.ndim == 1, f"{part} labels", f"{y.dtype} of shape {y.shape}", allowed,
        "For real-valued labels give the model task=REGRESSION.",
    )  # fmt: skip
    wrong = np.flatnonzero((y < 0) | (y >= classes))
    if wrong.size:
        party = names[int(np.searchsorted(split.start, wrong[0], side="right")) - 1]
        raise SettingError(
            f"{part} labels must be {allowed}, got {y[wrong[0]]} at party {party!r}. "
            "Give the model more classes, or number the labels from 0."
        )
