"""Groups of a model's parameters, chosen by patterns over their names such as ``"head/*"``."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, final

import numpy as np

from fedplus._backend import namespace
from fedplus._types import Array, Layout, NumpyArray, settings, static_field
from fedplus.check import require
from fedplus.schedules import is_schedule, wrap_function


@final
@settings
class ParameterGroups:
    """The division of a model's parameters into groups, one for each pattern.

    A parameter belongs to the first pattern that matches its name; ``*``, ``?`` and ``[...]`` mean what
    they mean in a shell.

    Args:
        patterns: The patterns. Together they must match all parameters, and each must match one.
        layout: Name and size of each parameter in raveled order (``fedplus.models.ravel`` returns it).
        name: The name of the setting, for error messages.

    >>> groups = ParameterGroups(("head/*", "*"), (("body", 1), ("head/weight", 2)))
    >>> groups.split(np.array([5.0, 6.0, 7.0]))["head/*"].tolist()
    [6.0, 7.0]
    """

    patterns: tuple[str, ...] = static_field()
    layout: Layout = static_field()
    name: str = static_field(default="patterns")

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", tuple(self.patterns))
        object.__setattr__(self, "layout", tuple((str(n), int(s)) for n, s in self.layout))
        names = [name for name, _ in self.layout]
        require(bool(self.patterns), self.name, "none", "at least one pattern")
        require(bool(names), "layout", "none", "at least one parameter")
        owners = {name: self.pattern_of(name) for name in names}
        for name, owner in owners.items():
            require(
                owner is not None, self.name, f"no pattern that matches {name!r}",
                "a cover of all parameters", 'End with a pattern "*" for the other parameters.',
            )  # fmt: skip
        for pattern in self.patterns:
            require(
                pattern in owners.values(), self.name, f"{pattern!r}, which matches nothing",
                f"patterns over the names {', '.join(names)}",
                "Check the spelling and the order: the first match wins.",
            )  # fmt: skip

    def pattern_of(self, name: str) -> str | None:
        """Return the first pattern that matches a parameter's name, or None."""
        return next((pattern for pattern in self.patterns if fnmatchcase(name, pattern)), None)

    @cached_property
    def spans(self) -> list[tuple[str, int, int]]:
        """The column ranges (pattern, start, stop) in raveled order; adjacent ranges are merged."""
        spans: list[tuple[str, int, int]] = []
        start = 0
        for name, size in self.layout:
            owner = str(self.pattern_of(name))
            if spans and spans[-1][0] == owner:
                spans[-1] = (owner, spans[-1][1], start + size)
            else:
                spans.append((owner, start, start + size))
            start += size
        return spans

    def require_size(self, size: int) -> None:
        """Require that the layout's parameters have ``size`` entries in total."""
        total = self.spans[-1][2]
        require(
            total == size, "layout", f"{total} entries in all",
            f"the layout of the model, which has {size} entries",
            "Use fedplus.models.ravel(params).layout.",
        )  # fmt: skip

    def split(self, x: Array) -> dict[str, Array]:
        """Return each pattern's columns of ``x``, whose last axis is a raveled model."""
        self.require_size(x.shape[-1])
        pieces: dict[str, list[Array]] = {pattern: [] for pattern in self.patterns}
        for owner, first, last in self.spans:
            pieces[owner].append(x[..., first:last])
        return {pattern: _concatenate(parts) for pattern, parts in pieces.items()}

    def concatenate(self, blocks: Mapping[str, Array]) -> Array:
        """Return the raveled models from each pattern's columns; the inverse of ``split``."""
        offsets = dict.fromkeys(self.patterns, 0)
        pieces = []
        for pattern, start, stop in self.spans:
            first = offsets[pattern]
            last = first + stop - start
            pieces.append(blocks[pattern][..., first:last])
            offsets[pattern] = last
        return _concatenate(pieces)


@final
@settings
class ByLayer:
    """A number for each group of layers, in the place of one number: σ, λ or η of ``LocalSolve``.

    Args:
        values: Pattern ↦ a number or a schedule.
        layout: Name and size of each parameter in raveled order.

    >>> ByLayer({"head/*": 0.0, "*": 1.0}, (("body", 1), ("head/weight", 2))).vector.tolist()
    [1.0, 0.0, 0.0]
    """

    values: Mapping[str, Any]
    layout: Layout = static_field()

    def __post_init__(self) -> None:
        # The order decides, and JAX sorts the keys of a plain dict.
        values = OrderedDict((p, wrap_function(value)) for p, value in self.values.items())
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "layout", self.groups.layout)

    @cached_property
    def groups(self) -> ParameterGroups:
        """The parameters of each pattern."""
        return ParameterGroups(tuple(self.values), self.layout)

    def at(self, names: Iterable[str]) -> list[Any]:
        """Return the numbers of these parameters."""
        return [self.values[str(self.groups.pattern_of(name))] for name in names]

    @property
    def vector(self) -> Array:
        """(d,): the number of each entry of a raveled model."""
        xp = namespace(*self.values.values())
        parts = [xp.full(stop - start, self.values[p]) for p, start, stop in self.groups.spans]
        return _concatenate(parts)

    @property
    def sampled_values(self) -> list[Any]:
        """The values, for ``check.require_number``."""
        return list(self.values.values())


def per_entry(setting: Any) -> Any:
    """Return a number as it is, and a ``ByLayer`` as a vector with one number for each entry.

    Args:
        setting: A number or a ``ByLayer``.

    Raises:
        SettingError: A setting is a schedule, whose value depends on the round.

    >>> per_entry(ByLayer({"head": 2.0, "*": 1.0}, (("body", 2), ("head", 1)))).tolist()
    [1.0, 1.0, 2.0]
    """
    values = setting.values.values() if isinstance(setting, ByLayer) else [setting]
    is_resolved = not any(map(is_schedule, values))
    require(is_resolved, "a setting", repr(setting), "a number", "Call at_round(method, t) first.")
    return setting.vector if isinstance(setting, ByLayer) else setting


@final
@settings
class PrivateLayers:
    """The parameters that never leave a party: not sent, not aggregated, not stored by the server.

    Args:
        patterns: Patterns over the names of these parameters.
        layout: Name and size of each parameter in raveled order.

    >>> private = PrivateLayers(("head/*",), (("body", 1), ("head/weight", 2)))
    >>> private.shared(np.array([5.0, 6.0, 7.0])).tolist()
    [5.0]
    """

    patterns: Sequence[str] = static_field()
    layout: Layout = static_field()

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", tuple(self.patterns))
        object.__setattr__(self, "layout", tuple((str(n), int(s)) for n, s in self.layout))
        names = [name for name, _ in self.layout]
        for pattern in self.patterns:
            require(
                any(fnmatchcase(name, pattern) for name in names), "private",
                f"{pattern!r}, which matches nothing", f"patterns over {', '.join(names)}",
            )  # fmt: skip
        require(
            not self.is_private.all(), "private", "patterns that match all parameters",
            "fewer of them", "Without a shared parameter, use local_sgd.",
        )  # fmt: skip

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the private parameters."""
        return tuple(name for name, _ in self.layout if _matches(name, self.patterns))

    @cached_property
    def is_private(self) -> NumpyArray:
        """(d,): True for each entry of a private parameter."""
        parts = [np.full(size, _matches(name, self.patterns)) for name, size in self.layout]
        return np.concatenate(parts)

    def shared(self, x: Array) -> Array:
        """Return the columns of ``x`` that parties send; its last axis is a raveled model."""
        return _concatenate([x[..., first:last] for first, last in self._shared_spans])

    def replace_shared(self, w: Array, shared: Array) -> Array:
        """Return the model w with other values of the shared parameters."""
        pieces, end, used = [], 0, 0
        for first, last in self._shared_spans:
            pieces += [w[end:first], shared[used : used + last - first]]
            end, used = last, used + last - first
        return _concatenate([*pieces, w[end:]])

    @cached_property
    def _shared_spans(self) -> list[tuple[int, int]]:
        edges = np.flatnonzero(np.diff(self.is_private, prepend=True, append=True))
        return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _concatenate(pieces: list[Array]) -> Array:
    """Return the pieces joined along the last axis, without a copy if there is only one."""
    if len(pieces) == 1:
        return pieces[0]
    joined: Array = namespace(*pieces).concatenate(pieces, axis=-1)
    return joined
