"""Builds the data, the model, the methods and the arguments of ``simulate`` from a specification."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedplus import aggregation, data, models, psi, schedules
from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import lookup, require
from fedplus.data.federation import Federation
from fedplus.data.holdout import Splitting
from fedplus.experiments.spec import Data, Fault, Method, Model, Spec
from fedplus.experiments.toml_source import TomlSource
from fedplus.layers import Layer
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
SCHEDULES = {
    "cosine": schedules.Cosine,
    "inverse": schedules.Inverse,
    "linear": schedules.Linear,
    "warm-up": schedules.WarmUp,
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
"""The models and their settings; the sizes of inputs and outputs come from the data."""
FOLDER_SETTINGS = {"target", "task", "missing", *Splitting.__annotations__} - {"seed"}
"""The settings of data from a folder of files."""


def build_federation(spec: Data, source: TomlSource) -> Federation:
    """Load the data; the samples named by ``judged_on`` become the test samples.

    Raises:
        SettingError: A setting is not valid, or the data does not have the samples.
    """
    with source.locate_errors("data"):
        require(
            (spec.name is None) != (spec.folder is None), "data",
            "both" if spec.name else "neither", "either a name or a folder",
            'E.g. name = "digits-robust", or folder = "hospitals".',
        )  # fmt: skip
        if spec.name is not None:
            federation = data.load(spec.name, seed=spec.seed or 0, **spec.settings)
        else:
            federation = _load_folder(spec)
        federation = federation if spec.first is None else federation.first(spec.first)
        federation = federation.standardise() if spec.standardise else federation
        samples = getattr(federation, spec.judged_on)
        require(
            samples is not None, "judged_on", spec.judged_on, "a set of samples that the data has",
            "Set a validation_share.",
        )  # fmt: skip
        return federation._replace(test=samples)


def _load_folder(spec: Data) -> Federation:
    assert spec.folder is not None
    for name in spec.settings:
        require(
            name in FOLDER_SETTINGS, "data", name, f"one of: {', '.join(sorted(FOLDER_SETTINGS))}"
        )
    settings = {"name": Path(spec.folder).name, **spec.settings}
    return Federation.from_folder(spec.folder, seed=spec.seed or 0, **settings)


def build_model(spec: Model, federation: Federation, source: TomlSource) -> models.Model:
    """Build the model with input and output sizes that fit the data.

    Raises:
        SettingError: A setting is not valid, or the model does not fit the data.
    """
    x, y, info = federation.train.x, federation.train.y, federation.info
    name = default_model(federation) if spec.name == "auto" else spec.name
    with source.locate_errors("model"):
        make, allowed = MODELS[name]
        for setting in spec.settings:
            others = [other for other, (_, known) in MODELS.items() if setting in known]
            hint = ""
            if others:
                hint = f"Models with {setting}: {', '.join(others)} (--set model.name={others[0]})."
            require(setting in allowed, f"setting of {name}", setting, _one_of(allowed), hint)
        settings = {k: tuple(v) if isinstance(v, list) else v for k, v in spec.settings.items()}
        if name == "linear":
            outputs = int(np.prod(y.shape[1:])) if y.ndim > 1 else 1
            return make(int(np.prod(x.shape[1:])), outputs)
        if name == "eiie":
            return make(_price_window(federation), **settings)
        classes = len(info.classes) or _count_classes(federation)
        require(
            classes > 1, "the data's labels", f"only the class {'/'.join(info.classes)!r}",
            "of at least two classes",
            "There is nothing to predict: choose another target (in the shell: --set target=COLUMN), "
            'or set task to "regression" (--set task=regression) if the labels are amounts.',
        )  # fmt: skip
        if name == "cnn":
            image = info.image_shape or x.shape[1:]
            require(len(image) in (2, 3), "cnn's data", f"inputs of shape {image}", "images")
            return make((*image, 1)[:3], classes, **settings)
        if name == "lstm":
            outputs = 1 if classes == 2 else classes
            return make(outputs=outputs, **_sequence_sizes(federation), **settings)
        return make(int(np.prod(x.shape[1:])), classes, **settings)


def _price_window(federation: Federation) -> int:
    x, y = federation.train.x.shape[1:], federation.train.y.shape[1:]
    ok = len(x) == 3 and 1 <= len(y) <= 2 and y[-1] == x[0]
    require(
        ok, "eiie's data", f"inputs of shape {x}, labels of shape {y}",
        "episodes of prices: (stocks, days, 3) and (days, stocks)", 'Use data such as "portfolio".',
    )  # fmt: skip
    return int(x[1] - (y[0] if len(y) == 2 else 1) + 1)


def _sequence_sizes(federation: Federation) -> dict[str, Any]:
    shape, table = federation.train.x.shape[1:], federation.info.embedding
    if table is not None:
        return {"tokens": shape[0], "features": table.shape[1], "embedding": table}
    require(len(shape) == 2, "lstm's data", f"inputs of shape {shape}", "sequences of vectors")
    return {"tokens": shape[0], "features": shape[1]}


def default_model(federation: Federation) -> str:
    """Return the name of the default model for the data: "linear", "logistic" or "lstm"."""
    if federation.info.embedding is not None:
        return "lstm"
    return "linear" if federation.train.y.dtype.kind == "f" else "logistic"


def _count_classes(federation: Federation) -> int:
    y = federation.train.y
    is_whole = y.dtype.kind in "iub"
    require(is_whole, "the data's labels", str(y.dtype), "whole numbers: classes", 'Use "linear".')
    return max(2, int(max(y.max(), federation.test.y.max())) + 1)


def build_method(
    spec: Method, model: models.Model, source: TomlSource, number: int = 0
) -> AbstractAlgorithm[Any]:
    """Build a method with its settings.

    Args:
        spec: The method by name, and its settings.
        model: The model, whose layout some methods need.
        source: The TOML file, for error messages.
        number: Index of the method in the file.

    Raises:
        SettingError: The name is unknown or a setting is not valid.
    """
    with source.locate_errors("methods", number):
        method = lookup_method(spec.name)
        settings = {
            name: _build_setting(name, value, method.settings.get(name), spec.name)
            for name, value in spec.settings.items()
        }
        if "layout" in method.settings:
            require("layout" not in settings, "layout", "one", "left out: the model defines it")
            settings["layout"] = ravel(model.init(jax.random.key(0))).layout
        return method(**settings)


def _build_setting(name: str, value: Any, default: Any, method: str = "") -> Any:
    if name == "aggregate":
        return _build_from_table(value, "name", AGGREGATORS, name)
    if isinstance(value, Mapping) and "schedule" in value:
        return _build_from_table(value, "schedule", SCHEDULES, name)
    if name == "parts" and "layers" in method:
        return _build_layers(value)
    if name == "parts":
        ok = isinstance(value, Mapping) and len(value) > 0
        example = '{ "*" = { psi = "l2", delta = 0.1 } }, with one pattern per part'
        require(ok, name, repr(value), example)
        return {k: _build_from_table(part, "psi", PSIS, "parts") for k, part in value.items()}
    is_list = isinstance(value, list)
    ok = not isinstance(value, Mapping) and is_list == isinstance(default, tuple)
    texts = isinstance(default, tuple) and any(isinstance(entry, str) for entry in default)
    kinds = (list, dict) if texts else (list, dict, str)
    ok = ok and not (is_list and any(isinstance(entry, kinds) for entry in value))
    many = "texts in a list" if texts else "numbers in a list"
    require(ok, name, repr(value), many if isinstance(default, tuple) else "one value")
    return tuple(value) if is_list else value


def _build_layers(value: Any) -> dict[str, Layer]:
    """Return the layers of a table from patterns to settings, such as { "head/*" = { private = true } }."""
    ok = isinstance(value, Mapping) and len(value) > 0
    ok = ok and all(isinstance(part, Mapping) for part in value.values())
    example = 'a table such as { "head/*" = { private = true }, "*" = { psi = "anchor", lam = 1 } }'
    require(ok, "parts", repr(value), example)
    return {pattern: _build_layer(dict(part)) for pattern, part in value.items()}


def _build_layer(table: dict[str, Any]) -> Layer:
    own = set(inspect.signature(Layer).parameters) - {"psi"}
    settings = {
        name: _build_setting(name, value, None) for name, value in table.items() if name in own
    }
    rest = {name: value for name, value in table.items() if name not in own}
    if rest:
        settings["psi"] = _build_from_table(rest, "psi", PSIS, "parts")
    return Layer(**settings)


def _build_from_table(
    table: Any, key: str, choices: Mapping[str, Callable[..., Any]], what: str
) -> Any:
    """Build the object that a table names under ``key``; the other keys are its settings."""
    ok = isinstance(table, Mapping) and isinstance(table.get(key), str)
    example = f'a table with {key} and settings, e.g. {{ {key} = "{next(iter(choices))}" }}'
    require(ok, what, repr(table), example, f"Known: {', '.join(choices)}.")
    make = lookup(table[key], choices, f"{what}'s {key}")
    return _call_checked(make, {k: v for k, v in table.items() if k != key}, table[key])


def _call_checked(make: Callable[..., Any], settings: Mapping[str, Any], name: str) -> Any:
    """Return ``make(**settings)``; unknown and missing settings are a ``SettingError``."""
    allowed = inspect.signature(make).parameters
    for setting in settings:
        require(setting in allowed, f"setting of {name}", setting, _one_of(allowed))
    missing = [k for k, p in allowed.items() if p.default is p.empty and k not in settings]
    got = ", ".join(settings) or "none"
    require(not missing, f"settings of {name}", got, f"given with {', '.join(missing)}")
    return make(**settings)


def _one_of(names: Any) -> str:
    return f"one of: {', '.join(names)}" if names else "none; it has no settings"


def simulate_arguments(spec: Spec, source: TomlSource) -> dict[str, Any]:
    """Return the keyword arguments of ``simulate`` other than method, data and model.

    Raises:
        SettingError: A fault names an unknown attack or setting.
    """
    train = spec.train.model_dump(exclude_none=True, exclude={"faults", "stragglers"})
    if spec.train.stragglers is not None:
        train["stragglers"] = Stragglers(**spec.train.stragglers.model_dump())
    with source.locate_errors("train"):
        train["faults"] = [_build_fault(fault) for fault in spec.train.faults]
    return train


def _build_fault(spec: Fault) -> faults.Fault:
    attack = lookup(spec.attack, ATTACKS, "attack")
    return faults.Fault(tuple(spec.parties), _call_checked(attack, spec.settings, spec.attack))
