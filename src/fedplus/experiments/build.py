"""From a specification to what ``simulate`` takes."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedplus import aggregation, data, models, psi
from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import lookup, require
from fedplus.data.federation import Federation
from fedplus.data.holdout import Splitting
from fedplus.experiments.spec import Data, Fault, Method, Model, Spec
from fedplus.experiments.toml_source import TomlSource
from fedplus.methods import lookup_method
from fedplus.models import ravel
from fedplus.simulation import Stragglers, faults

PSIS = {
    "anchor": psi.Anchor,
    "l1": psi.L1,
    "l2": psi.L2,
    "quadratic": psi.Quadratic,
    "zero": psi.Zero,
}
AGGREGATORS = {
    "centred-clipping": aggregation.CentredClipping,
    "coordinate-median": aggregation.CoordinateMedian,
    "geometric-median": aggregation.GeometricMedian,
    "krum": aggregation.Krum,
    "mean": aggregation.Mean,
    "norm-clipping": aggregation.NormClipping,
    "trimmed-mean": aggregation.TrimmedMean,
}
ATTACKS: dict[str, Callable[..., faults.Attack]] = {
    attack.__name__: attack
    for attack in (
        faults.a_little_is_enough, faults.gaussian, faults.inner_product, faults.not_finite,
        faults.replay, faults.scaling, faults.sign_flip,
    )
}  # fmt: skip
MODELS: dict[str, tuple[Callable[..., models.Model], tuple[str, ...]]] = {
    "linear": (models.linear, ()),
    "logistic": (models.logistic, ()),
    "mlp": (models.mlp, ("hidden",)),
    "cnn": (models.cnn, ("channels", "kernel")),
    "lstm": (models.lstm, ("hidden", "layers")),
    "eiie": (models.eiie, ("channels", "filters", "cost")),
}
"""With what can be set; the sizes of inputs and outputs come from the data."""
OF_FILES = {"target", "task", "missing", *Splitting.__annotations__} - {"seed"}
"""What can be set of a folder of files."""


def build_federation(spec: Data, source: TomlSource) -> Federation:
    """The data, loaded."""
    with source.at("data"):
        require(
            (spec.name is None) != (spec.folder is None), "data",
            "both" if spec.name else "neither", "either a name or a folder",
            'E.g. name = "digits-robust", or folder = "hospitals".',
        )  # fmt: skip
        if spec.name is not None:
            made = data.load(spec.name, seed=spec.seed or 0, **spec.settings)
        else:
            made = _from_folder(spec)
        made = made if spec.first is None else made.first(spec.first)
        made = made.standardise() if spec.standardise else made
        judged = getattr(made, spec.judged_on)
        require(
            judged is not None, "judged_on", spec.judged_on, "samples that there are",
            "Set a validation_share.",
        )  # fmt: skip
        return made._replace(test=judged)


def _from_folder(spec: Data) -> Federation:
    assert spec.folder is not None
    for name in spec.settings:
        require(name in OF_FILES, "data", name, f"one of: {', '.join(sorted(OF_FILES))}")
    settings = {"name": Path(spec.folder).name, **spec.settings}
    return Federation.from_folder(spec.folder, seed=spec.seed or 0, **settings)


def build_model(spec: Model, federation: Federation, source: TomlSource) -> models.Model:
    """The model, shaped by the data."""
    x, y, info = federation.train.x, federation.train.y, federation.info
    name = default_model(federation) if spec.name == "auto" else spec.name
    with source.at("model"):
        make, allowed = MODELS[name]
        for setting in spec.settings:
            others = [other for other, (_, has) in MODELS.items() if setting in has]
            hint = f"{setting} is of {' and '.join(others)}: set model.name." if others else ""
            require(setting in allowed, f"{name}'s settings", setting, _listed(allowed), hint)
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in spec.settings.items()}
        if name == "linear":
            outputs = int(np.prod(y.shape[1:])) if y.ndim > 1 else 1
            return make(int(np.prod(x.shape[1:])), outputs)
        if name == "eiie":
            return make(_window(federation), **given)
        classes = len(info.classes) or _classes(federation)
        if name == "cnn":
            image = info.image or x.shape[1:]
            require(len(image) in (2, 3), "cnn's data", f"inputs of shape {image}", "images")
            return make((*image, 1)[:3], classes, **given)
        if name == "lstm":
            return make(outputs=1 if classes == 2 else classes, **_sequence(federation), **given)
        return make(int(np.prod(x.shape[1:])), classes, **given)


def _window(federation: Federation) -> int:
    x, y = federation.train.x.shape[1:], federation.train.y.shape[1:]
    ok = len(x) == 3 and 1 <= len(y) <= 2 and y[-1] == x[0]
    require(
        ok, "eiie's data", f"inputs of shape {x}, labels of shape {y}",
        "episodes of prices: (stocks, days, 3) and (days, stocks)", 'Such as "portfolio".',
    )  # fmt: skip
    return int(x[1] - (y[0] if len(y) == 2 else 1) + 1)


def _sequence(federation: Federation) -> dict[str, Any]:
    shape, table = federation.train.x.shape[1:], federation.info.embedding
    if table is not None:
        return {"tokens": shape[0], "features": table.shape[1], "embedding": table}
    require(len(shape) == 2, "lstm's data", f"inputs of shape {shape}", "sequences of vectors")
    return {"tokens": shape[0], "features": shape[1]}


def default_model(federation: Federation) -> str:
    """The model that goes with the data where nobody says: "linear", "logistic" or "lstm"."""
    if federation.info.embedding is not None:
        return "lstm"
    return "linear" if federation.train.y.dtype.kind == "f" else "logistic"


def _classes(federation: Federation) -> int:
    y = federation.train.y
    whole = y.dtype.kind in "iub"
    require(whole, "the data's labels", str(y.dtype), "whole numbers: classes", 'Use "linear".')
    return max(2, int(max(y.max(), federation.test.y.max())) + 1)


def build_method(
    spec: Method, model: models.Model, source: TomlSource, number: int = 0
) -> AbstractAlgorithm[Any]:
    """The method with its settings."""
    with source.at("methods", number):
        chosen = lookup_method(spec.name)
        given = {
            name: _setting(name, value, chosen.settings.get(name))
            for name, value in spec.settings.items()
        }
        if "layout" in chosen.settings:
            require("layout" not in given, "layout", "one", "left out: the model has it")
            given["layout"] = ravel(model.init(jax.random.key(0))).layout
        return chosen(**given)


def _setting(name: str, value: Any, default: Any) -> Any:
    if name == "aggregate":
        return _named(value, "name", AGGREGATORS, name)
    if name == "parts":
        ok = isinstance(value, Mapping) and len(value) > 0
        require(ok, name, repr(value), '{ "*" = { psi = "l2", delta = 0.1 } }, a pattern a part')
        return {pattern: _named(one, "psi", PSIS, "parts") for pattern, one in value.items()}
    is_list = isinstance(value, list)
    ok = not isinstance(value, Mapping) and is_list == isinstance(default, tuple)
    ok = ok and not (is_list and any(isinstance(one, (list, dict, str)) for one in value))
    require(
        ok, name, repr(value), "numbers in a list" if isinstance(default, tuple) else "one value"
    )
    return tuple(value) if is_list else value


def _named(value: Any, key: str, among: Mapping[str, Callable[..., Any]], what: str) -> Any:
    """One of several things by name, made with the settings beside the name."""
    ok = isinstance(value, Mapping) and isinstance(value.get(key), str)
    require(ok, what, repr(value), f'{{ {key} = "{next(iter(among))}" }}, with its settings beside')
    make = lookup(value[key], among, f"{what}'s {key}")
    return _made(make, {k: v for k, v in value.items() if k != key}, value[key])


def _made(make: Callable[..., Any], given: Mapping[str, Any], name: str) -> Any:
    allowed = inspect.signature(make).parameters
    for setting in given:
        require(setting in allowed, f"{name}'s settings", setting, _listed(allowed))
    missing = [k for k, p in allowed.items() if p.default is p.empty and k not in given]
    require(not missing, f"{name}'s settings", _listed(given), f"given with {', '.join(missing)}")
    return make(**given)


def _listed(names: Any) -> str:
    return f"of: {', '.join(names)}" if names else "none"


def simulate_arguments(spec: Spec, source: TomlSource) -> dict[str, Any]:
    """What ``simulate`` takes beside method, data and model."""
    train = spec.train.model_dump(exclude_none=True, exclude={"faults", "stragglers"})
    if spec.train.stragglers is not None:
        train["stragglers"] = Stragglers(**spec.train.stragglers.model_dump())
    with source.at("train"):
        train["faults"] = [_fault(one) for one in spec.train.faults]
    return train


def _fault(spec: Fault) -> faults.Fault:
    attack = lookup(spec.attack, ATTACKS, "attack")
    return faults.Fault(tuple(spec.parties), _made(attack, spec.settings, spec.attack))
