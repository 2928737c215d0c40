"""Builds the data, the model, the methods and the arguments of ``simulate`` from a specification."""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedplus import aggregation, data, models, psi, schedules
from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import SettingError, lookup, require
from fedplus.data.federation import Federation, FrameSettings
from fedplus.data.tables import standardise_rule
from fedplus.experiments.spec import Data, Fault, Method, Model, Spec
from fedplus.experiments.toml_source import TomlSource
from fedplus.layers import Layer
from fedplus.methods import lookup_method
from fedplus.models import ravel
from fedplus.server_optimizer import AdaptiveServer, MomentumServer
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
SERVER_OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "adagrad": partial(AdaptiveServer, "adagrad"),
    "adam": partial(AdaptiveServer, "adam"),
    "momentum": MomentumServer,
    "yogi": partial(AdaptiveServer, "yogi"),
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
TABLE_SETTINGS = {"target", *FrameSettings.__annotations__} - {"seed", "standardise"}
"""The settings of data from a folder of files; ``standardise`` is one of all data."""
FILE_SETTINGS = {"party", *TABLE_SETTINGS}
"""The settings of data from one file with a column of parties."""


def build_federation(spec: Data, source: TomlSource) -> Federation:
    """Load the data; the samples named by ``judged_on`` become the test samples.

    Raises:
        SettingError: A setting is not valid, or the data does not have the samples.
    """
    with source.locate_errors("data"):
        given = [k for k in ("name", "folder", "file") if getattr(spec, k) is not None]
        require(
            len(given) == 1, "data", " and ".join(given) or "none of these",
            "one of name, folder and file", 'E.g. name = "digits-robust", or folder = "hospitals".',
        )  # fmt: skip
        if spec.name is not None:
            federation = data.load(spec.name, seed=spec.seed or 0, **spec.settings)
        else:
            federation = _load_files(spec)
        federation = federation if spec.first is None else federation.first(spec.first)
        how = standardise_rule(spec.standardise or False)
        if spec.name is not None and how != "no":
            federation = federation.standardise(by=how)
        samples = getattr(federation, spec.judged_on)
        require(
            samples is not None, "judged_on", spec.judged_on, "a set of samples that the data has",
            "Set a validation_share.",
        )  # fmt: skip
        return federation._replace(test=samples)


def _load_files(spec: Data) -> Federation:
    """Build the federation of a folder, or of one file with a column of parties."""
    known = TABLE_SETTINGS if spec.file is None else FILE_SETTINGS
    for name in spec.settings:
        require(name in known, "data", name, f"one of: {', '.join(sorted(known))}")
    settings: dict[str, Any] = {"seed": spec.seed or 0, **spec.settings}
    if spec.standardise is not None:
        settings["standardise"] = spec.standardise
    if spec.file is not None:
        return Federation.from_file(spec.file, **{"party": None, **settings})
    assert spec.folder is not None
    return Federation.from_folder(spec.folder, **settings)


def require_known_model(spec: Model, source: TomlSource) -> None:
    """Check the name of the model, which needs no data.

    Raises:
        SettingError: The name is neither "auto" nor one that ``lookup_model`` finds.
    """
    with source.locate_errors("model"):
        if spec.name != "auto":
            lookup_model(spec.name)


def model_arguments(
    spec: Model, federation: Federation, source: TomlSource
) -> tuple[str, dict[str, Any]]:
    """Return the model's name and the keyword arguments with which it is made for this data.

    Raises:
        SettingError: A setting is not valid, or the model does not fit the data.
    """
    require_known_model(spec, source)
    name = default_model(federation) if spec.name == "auto" else spec.name
    with source.locate_errors("model"):
        entry = lookup_model(name)
        for setting in spec.settings:
            others = [other for other, known in MODELS.items() if setting in known.settings]
            hint = ""
            if others:
                hint = f"Models with {setting}: {', '.join(others)} (--set model.name={others[0]})."
            require(
                setting in entry.settings,
                f"setting of {name}",
                setting,
                _one_of(entry.settings),
                hint,
            )
        settings = {k: tuple(v) if isinstance(v, list) else v for k, v in spec.settings.items()}
        return name, {**entry.sizes(federation), **settings}


def build_model(spec: Model, federation: Federation, source: TomlSource) -> models.Model:
    """Build the model with input and output sizes that fit the data.

    Raises:
        SettingError: A setting is not valid, or the model does not fit the data.
    """
    name, arguments = model_arguments(spec, federation, source)
    with source.locate_errors("model"):
        return make_model(name, arguments)


def make_model(name: str, arguments: Mapping[str, Any]) -> models.Model:
    """Return the model of this name, made with these keyword arguments.

    Raises:
        SettingError: The name is unknown, or a user's function returns something else than a model.
    """
    model = lookup_model(name).make(**arguments)
    is_model = isinstance(model, models.Model)
    require(is_model, name, type(model).__name__, "a function that returns a fedplus.models.Model")
    return model


def _count_inputs(federation: Federation) -> int:
    return int(np.prod(federation.train.x.shape[1:]))


def _count_classes(federation: Federation) -> int:
    y, names = federation.train.y, federation.info.classes
    require(
        len(names) != 1, "the data's labels", f"only the class {'/'.join(names)!r}",
        "of at least two classes",
        "There is nothing to predict: choose another target (in the shell: --set target=COLUMN), "
        'or set task to "regression" (--set task=regression) if the labels are amounts.',
    )  # fmt: skip
    if names:
        return len(names)
    require(
        y.dtype.kind in "iub", "the data's labels", str(y.dtype), "whole numbers: classes",
        'Use the model "linear" (--set model.name=linear).',
    )  # fmt: skip
    return max(2, int(max(y.max(), federation.test.y.max())) + 1)


def _regression_sizes(federation: Federation) -> dict[str, Any]:
    y = federation.train.y
    outputs = int(np.prod(y.shape[1:])) if y.ndim > 1 else 1
    return {"inputs": _count_inputs(federation), "outputs": outputs}


def _class_sizes(federation: Federation) -> dict[str, Any]:
    return {"inputs": _count_inputs(federation), "classes": _count_classes(federation)}


def _image_sizes(federation: Federation) -> dict[str, Any]:
    classes = _count_classes(federation)
    image = federation.info.image_shape or federation.train.x.shape[1:]
    require(len(image) in (2, 3), "cnn's data", f"inputs of shape {image}", "images")
    return {"shape": (*image, 1)[:3], "classes": classes}


def _sequence_sizes(federation: Federation) -> dict[str, Any]:
    classes = _count_classes(federation)
    outputs = 1 if classes == 2 else classes
    shape, table = federation.train.x.shape[1:], federation.info.embedding
    if table is not None:
        features = table.shape[1]
        return {"tokens": shape[0], "features": features, "outputs": outputs, "embedding": table}
    require(len(shape) == 2, "lstm's data", f"inputs of shape {shape}", "sequences of vectors")
    return {"tokens": shape[0], "features": shape[1], "outputs": outputs}


def _price_sizes(federation: Federation) -> dict[str, Any]:
    x, y = federation.train.x.shape[1:], federation.train.y.shape[1:]
    ok = len(x) == 3 and 1 <= len(y) <= 2 and y[-1] == x[0]
    require(
        ok, "eiie's data", f"inputs of shape {x}, labels of shape {y}",
        "episodes of prices: (stocks, days, 3) and (days, stocks)", 'Use data such as "portfolio".',
    )  # fmt: skip
    return {"window": int(x[1] - (y[0] if len(y) == 2 else 1) + 1)}


class ModelEntry(NamedTuple):
    """A model that TOML files can name."""

    make: Callable[..., models.Model]
    sizes: Callable[[Federation], dict[str, Any]]
    """The keyword arguments of ``make`` that come from the data: the sizes of inputs and outputs."""
    settings: tuple[str, ...] = ()
    """The keyword arguments of ``make`` that users may set."""


SIZES: dict[str, Callable[[Federation], Any]] = {
    "inputs": _count_inputs,
    "outputs": lambda federation: _regression_sizes(federation)["outputs"],
    "classes": _count_classes,
    "shape": lambda federation: tuple(federation.train.x.shape[1:]),
}
"""The sizes of the data that a user's own model can ask for."""
MODELS = {
    "linear": ModelEntry(models.linear, _regression_sizes),
    "logistic": ModelEntry(models.logistic, _class_sizes),
    "mlp": ModelEntry(models.mlp, _class_sizes, ("hidden",)),
    "cnn": ModelEntry(models.cnn, _image_sizes, ("channels", "kernel")),
    "lstm": ModelEntry(models.lstm, _sequence_sizes, ("hidden", "layers")),
    "eiie": ModelEntry(models.eiie, _price_sizes, ("channels", "filters", "cost")),
}


def lookup_model(name: str) -> ModelEntry:
    """Return the entry of a built-in model, or of a user's function ``module:function``.

    The keyword arguments of such a function that are called ``inputs``, ``outputs``, ``classes`` or
    ``shape`` get the sizes of the data; the others are settings. The module is imported from the
    current folder or from the installed packages.

    Raises:
        SettingError: The model is unknown, or the function cannot be imported.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon:
        return lookup(name, MODELS, "name of the model")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        make = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingError(
            f"model.name must be module:function, where the function returns a model, got {name!r} "
            f"({error})."
        ) from error
    require(callable(make), "model.name", f"{name!r}, which is no function", "module:function")
    parameters = inspect.signature(make).parameters
    sizes = [size for size in SIZES if size in parameters]

    def sizes_of(federation: Federation) -> dict[str, Any]:
        return {size: SIZES[size](federation) for size in sizes}

    return ModelEntry(make, sizes_of, tuple(set(parameters) - set(sizes)))


def default_model(federation: Federation) -> str:
    """Return the name of the default model for the data: "linear", "logistic" or "lstm"."""
    if federation.info.embedding is not None:
        return "lstm"
    return "linear" if federation.train.y.dtype.kind == "f" else "logistic"


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
        example = '{ name = "trimmed-mean", trim = 0.2 }'
        return _build_from_table(value, "name", AGGREGATORS, name, example)
    if name == "server_optimizer":
        example = '{ name = "adam", eta = 0.01 }'
        return _build_from_table(value, "name", SERVER_OPTIMIZERS, name, example)
    if isinstance(value, Mapping) and "schedule" in value:
        example = '{ schedule = "linear", first = 1, last = 0, rounds = 50 }'
        return _build_from_table(value, "schedule", SCHEDULES, name, example)
    if name == "parts" and method == "layers":
        return _build_layers(value)
    if name == "parts":
        ok = isinstance(value, Mapping) and len(value) > 0
        part_example = '{ psi = "l2", delta = 0.1 }'
        example = f'{{ "*" = {part_example} }}, with one pattern per part'
        require(ok, name, repr(value), example)
        return {
            k: _build_from_table(part, "psi", PSIS, "parts", part_example)
            for k, part in value.items()
        }
    is_list = isinstance(value, list)
    ok = not isinstance(value, Mapping) and is_list == isinstance(default, tuple)
    texts = isinstance(default, tuple) and any(isinstance(entry, str) for entry in default)
    kinds = (list, dict) if texts else (list, dict, str)
    ok = ok and not (is_list and any(isinstance(entry, kinds) for entry in value))
    many = "texts in a list" if texts else "numbers in a list"
    require(ok, name, repr(value), many if isinstance(default, tuple) else "one value")
    return tuple(value) if is_list else value


def _build_layers(value: Any) -> dict[str, Layer]:
    """Return the layers of a table from patterns to settings, e.g. { "*" = { lam = 1 } }."""
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
        example = '{ psi = "l2", delta = 0.1, sigma = 1 }'
        settings["psi"] = _build_from_table(rest, "psi", PSIS, "parts", example)
    return Layer(**settings)


def _build_from_table(
    table: Any, key: str, choices: Mapping[str, Callable[..., Any]], what: str, example: str
) -> Any:
    """Build the object that a table names under ``key``; the other keys are its settings.

    A setting of anything but a schedule may be a schedule.
    """
    ok = isinstance(table, Mapping) and isinstance(table.get(key), str)
    allowed = f"a table with {key} and settings, e.g. {example}"
    require(ok, what, repr(table), allowed, f"Known: {', '.join(choices)}.")
    make = lookup(table[key], choices, f"{what}'s {key}")
    settings = {k: v for k, v in table.items() if k != key}
    if key != "schedule":
        settings = {k: _build_setting(k, v, None) for k, v in settings.items()}
    return _call_checked(make, settings, table[key])


def _call_checked(make: Callable[..., Any], settings: Mapping[str, Any], name: str) -> Any:
    """Return ``make(**settings)``; unknown and missing settings are a ``SettingError``."""
    allowed = inspect.signature(make).parameters
    for setting in settings:
        require(setting in allowed, f"setting of {name}", setting, _one_of(allowed))
    missing = [k for k, p in allowed.items() if p.default is p.empty and k not in settings]
    if missing:
        got = f"only {', '.join(settings)}" if settings else "none"
        names = " and ".join(", ".join(missing).rsplit(", ", 1))
        raise SettingError(f"settings of {name} must include {names}, got {got}.")
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
