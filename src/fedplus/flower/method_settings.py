"""The shared arrays and the constant settings of a server's method."""

from collections.abc import Mapping
from typing import Any

from fedplus._checkpoint_file import stable_repr
from fedplus._types import Layout, NumpyArray
from fedplus.algorithm import FedPlus
from fedplus.check import require
from fedplus.parameter_groups import ByLayer
from fedplus.psi import Blocks
from fedplus.schedules import is_schedule


def shared_arrays(method: FedPlus, arrays: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
    """Return the arrays that parties send, in the order of the method's layout if it has one.

    Args:
        method: The method.
        arrays: The first model by name, with or without its private parameters.

    Raises:
        SettingError: The arrays have other names or sizes than the method's layout.
    """
    layout = _layout(method)
    if layout is None:
        return dict(arrays)
    private = () if method.private is None else method.private.names
    shared = [name for name, _ in layout if name not in private]
    require(
        set(shared) <= set(arrays) <= {name for name, _ in layout}, "arrays", ", ".join(arrays),
        f"the parameters of the method's layout: {', '.join(name for name, _ in layout)}",
        "The private ones may be left out." if private else "",
    )  # fmt: skip
    for name, size in layout:
        got = arrays[name].size if name in arrays else size
        allowed = f"of {size} entries, as in the method's layout"
        require(got == size, f"arrays[{name!r}]", f"{got} entries", allowed)
    return {name: arrays[name] for name in shared}


def _layout(method: FedPlus) -> Layout | None:
    """Return the names and sizes of the model's parameters, if a setting of the method has them."""
    local = method.local
    candidates: Any = (
        method.private, local.psi, local.eta, local.sigma, local.lam, local.begin_step, local.end_step,
    )  # fmt: skip
    layout: Layout | None = next((x.layout for x in candidates if hasattr(x, "layout")), None)
    return layout


def settings_of_method(method: FedPlus, score: tuple[str, str]) -> dict[str, Any]:
    """Return the settings that must stay the same during a federation, as JSON values by name.

    They are the same in every process. Settings that have their default are left out if earlier
    versions did not have them.
    """
    local = method.local
    numbers = {name: _describe(getattr(local, name)) for name in ("eta", "sigma", "lam")}
    psi: Any = stable_repr(local.psi)
    if isinstance(local.psi, Blocks):
        psi = {pattern: stable_repr(part) for pattern, part in local.psi.parts.items()}
    later = {
        "begin_step": local.begin_step and _describe(local.begin_step),
        "end_step": local.end_step and _describe(local.end_step),
        "private": method.private and list(method.private.names),
        "server": method.server_optimizer and stable_repr(method.server_optimizer),
        "join": None if method.join == "current" else method.join,
    }
    return numbers | {name: value for name, value in later.items() if value is not None} | {
        "psi": psi, "over": method.over, "score": list(score),
        "aggregate": None if method.aggregate is None else stable_repr(method.aggregate),
        "optimizer": None if local.optimizer == "sgd" else stable_repr(local.optimizer),
    }  # fmt: skip


def _describe(value: Any) -> Any:
    """Return a number, or what stands in its place, as a JSON value."""
    if isinstance(value, ByLayer):
        return {pattern: _describe(number) for pattern, number in value.values.items()}
    return stable_repr(value) if is_schedule(value) else float(value)


def ignored_settings(method: FedPlus) -> list[str]:
    """Return the settings that only the simulator applies; here each party's code decides them."""
    local = method.local
    pairs = (
        ("optimizer", local.optimizer, "sgd"),
        ("keep_optimizer_state", local.keep_optimizer_state, False),
        ("fine_tune", method.fine_tune, 0),
    )
    return [f"{name}={stable_repr(value)}" for name, value, default in pairs if value != default]
