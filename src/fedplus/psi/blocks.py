"""Another ψ for each group of layers, the paper's hybridisation."""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import final

from typing_extensions import override

from fedplus._types import Array, Layout, Vector, settings, static_field
from fedplus.check import require
from fedplus.parameter_groups import ParameterGroups
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
        for pattern, part in self.parts.items():
            is_psi = isinstance(part, AbstractPsi)
            require(
                is_psi,
                f"Blocks.parts[{pattern!r}]",
                repr(part),
                "a regulariser ψ from fedplus.psi, e.g. L2(0.1)",
            )
        # The order decides, and JAX sorts the keys of a plain dict.
        object.__setattr__(self, "parts", OrderedDict(self.parts))
        object.__setattr__(self, "layout", self.groups.layout)

    @cached_property
    def groups(self) -> ParameterGroups:
        """The parameters of each block."""
        return ParameterGroups(tuple(self.parts), self.layout, "Blocks.parts")

    def require_size(self, size: int) -> None:
        """Require that the layout's parameters have ``size`` entries in total."""
        self.groups.require_size(size)

    def split(self, x: Array) -> dict[str, Array]:
        """Return each pattern's columns of ``x``.

        Args:
            x: (d,) or (..., d), raveled models.

        Raises:
            SettingError: The layout does not have d entries.
        """
        return self.groups.split(x)

    def concatenate(self, blocks: Mapping[str, Array]) -> Array:
        """Return the raveled models (..., d) from each pattern's columns; the inverse of ``split``.

        Args:
            blocks: Pattern ↦ its columns, for every pattern.
        """
        return self.groups.concatenate(blocks)

    def without(self, names: Collection[str]) -> "Blocks":
        """Return the blocks of a model without these parameters.

        Args:
            names: The names of the parameters to leave out; a pattern that only they match is left out,
                too.

        >>> from fedplus.psi import L1, L2
        >>> blocks = Blocks({"head": L1(0.1), "*": L2(0.2)}, (("body", 2), ("head", 1)))
        >>> dict(blocks.without(["head"]).parts)
        {'*': L2(delta=0.2)}
        """
        layout = tuple((name, size) for name, size in self.layout if name not in names)
        owners = {self.groups.pattern_of(name) for name, _ in layout}
        return Blocks({p: part for p, part in self.parts.items() if p in owners}, layout)

    @override
    def value(self, x: Vector) -> Array:
        values = [self.parts[pattern].value(block) for pattern, block in self.split(x).items()]
        return sum(values[1:], start=values[0])

    @override
    def prox(self, x: Vector) -> Vector:
        blocks = self.split(x).items()
        return self.concatenate(
            {pattern: self.parts[pattern].prox(block) for pattern, block in blocks}
        )
