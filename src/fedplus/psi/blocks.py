"""Another ψ for each group of layers, the paper's hybridisation."""

from collections import OrderedDict
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import final

from typing_extensions import override

from fedplus._backend import namespace
from fedplus._types import Array, Layout, Vector, settings, static_field
from fedplus.check import require
from fedplus.psi.base import AbstractPsi


@final
@settings
class Blocks(AbstractPsi):
    """ψ(θ) = Σ_b ψ_b(θ_b), with a different ψ_b for each group b of layers.

    Args:
        parts: Pattern ↦ ψ, e.g. ``{"head/*": L1(0.1), "*": Quadratic(0.001)}``. A parameter belongs
            to the first pattern that matches its name (``*``, ``?`` and ``[...]`` as in a shell).
            All parameters of a pattern form one vector, so ``{"*": psi}`` is ``psi``.
        layout: Name and size of each parameter in raveled order (``fedplus.models.ravel`` returns it).

    Paper: "Hybridization via the Unified Fed+ Framework with Layer-specific Ψ".

    >>> import jax.numpy as jnp
    >>> from fedplus.psi import L1, Zero
    >>> psi = Blocks({"head": L1(1.0), "*": Zero()}, layout=(("body", 1), ("head", 2)))
    >>> psi.prox(jnp.array([5.0, 5.0, 0.5])).tolist()
    [5.0, 4.0, 0.0]
    """

    parts: Mapping[str, AbstractPsi]
    layout: Layout = static_field()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.layout]
        require(bool(self.parts), "Blocks.parts", "none", "at least one pattern")
        require(bool(names), "Blocks.layout", "none", "at least one parameter")
        for pattern, part in self.parts.items():
            require(
                isinstance(part, AbstractPsi),
                f"Blocks.parts[{pattern!r}]",
                repr(part),
                "a regulariser ψ from fedplus.psi, e.g. L2(0.1)",
            )
        owners = {name: self._owner(name) for name in names}
        for name, owner in owners.items():
            require(
                owner is not None,
                "Blocks.parts",
                f"no pattern that matches {name!r}",
                "a cover of all parameters",
                'End with "*": Zero() to leave the other parameters unregularised.',
            )
        for pattern in self.parts:
            require(
                pattern in owners.values(),
                "Blocks.parts",
                f"{pattern!r}, which matches nothing",
                f"patterns over the names {', '.join(names)}",
                "Check the spelling and the order: the first match wins.",
            )
        # The order decides, and JAX sorts the keys of a plain dict.
        object.__setattr__(self, "parts", OrderedDict(self.parts))
        object.__setattr__(self, "layout", tuple((str(n), int(s)) for n, s in self.layout))

    def _owner(self, name: str) -> str | None:
        """Return the first pattern that matches a parameter's name, or None."""
        return next((pattern for pattern in self.parts if fnmatchcase(name, pattern)), None)

    @cached_property
    def _spans(self) -> list[tuple[str, int, int]]:
        """The column ranges (pattern, start, stop) in raveled order; adjacent ranges are merged."""
        spans: list[tuple[str, int, int]] = []
        start = 0
        for name, size in self.layout:
            owner = str(self._owner(name))
            if spans and spans[-1][0] == owner:
                spans[-1] = (owner, spans[-1][1], start + size)
            else:
                spans.append((owner, start, start + size))
            start += size
        return spans

    def require_size(self, size: int) -> None:
        """Require that the layout's parameters have ``size`` entries in total."""
        total = self._spans[-1][2]
        require(
            total == size,
            "Blocks.layout",
            f"{total} entries in all",
            f"the layout of the model, which has {size} entries",
            "Use fedplus.models.ravel(params).layout.",
        )

    def split(self, x: Array) -> dict[str, Array]:
        """Return each pattern's columns of ``x``, whose last axis is a raveled model."""
        self.require_size(x.shape[-1])
        pieces: dict[str, list[Array]] = {pattern: [] for pattern in self.parts}
        for owner, first, last in self._spans:
            pieces[owner].append(x[..., first:last])
        return {pattern: _concatenate(parts) for pattern, parts in pieces.items()}

    def join(self, blocks: Mapping[str, Array]) -> Array:
        """Return the raveled models from each pattern's columns; the inverse of ``split``."""
        offsets = dict.fromkeys(self.parts, 0)
        pieces = []
        for pattern, start, stop in self._spans:
            first = offsets[pattern]
            last = first + stop - start
            pieces.append(blocks[pattern][..., first:last])
            offsets[pattern] = last
        return _concatenate(pieces)

    @override
    def value(self, x: Vector) -> Array:
        values = [self.parts[pattern].value(block) for pattern, block in self.split(x).items()]
        return sum(values[1:], start=values[0])

    @override
    def prox(self, x: Vector) -> Vector:
        blocks = self.split(x).items()
        return self.join({pattern: self.parts[pattern].prox(block) for pattern, block in blocks})


def _concatenate(pieces: list[Array]) -> Array:
    """Return the pieces joined along the last axis, without a copy if there is only one."""
    if len(pieces) == 1:
        return pieces[0]
    joined: Array = namespace(*pieces).concatenate(pieces, axis=-1)
    return joined
