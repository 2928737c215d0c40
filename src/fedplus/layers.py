"""Fed+ with other settings for each group of layers, in one object: ``Layers``."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, final

from fedplus._types import Layout, settings, static_field
from fedplus.aggregation import AbstractAggregator
from fedplus.algorithm import FedPlus
from fedplus.check import require, require_bool
from fedplus.local import LocalSolve
from fedplus.parameter_groups import ByLayer, ParameterGroups, PrivateLayers
from fedplus.psi import AbstractPsi, Anchor, Blocks, Zero

NEVER = 2**31 - 1
"""A step that no round reaches."""


@final
@settings
class Layer:
    """The settings of one group of layers.

    Args:
        psi: The regulariser ψ. It determines the personal part and, unless ``aggregate`` is given, how
            the layers are aggregated. By default there is no personal part, and the mean is taken.
        sigma: Penalty constant σ ≥ 0; with 0, steps do not move towards the anchor.
        lam: λ in [0, 1], where a round starts: 0 at the party's own layers, 1 at the global ones.
        eta: Learning rate η ≥ 0; with 0, the layers are not trained. None: that of the method.
        private: True for layers that never leave the party. They have neither λ nor σ nor a ψ.
        begin_step: The step of a round from which on the layers are trained.
        end_step: The step of a round from which on they are no longer trained. None: they are
            trained to the end of the round.
    """

    psi: AbstractPsi = Anchor()
    sigma: Any = 0.0
    lam: Any = 0.0
    eta: Any = None
    private: bool = static_field(default=False)
    begin_step: int = 0
    end_step: int | None = None

    def __post_init__(self) -> None:
        is_psi = isinstance(self.psi, AbstractPsi)
        require(is_psi, "Layer.psi", repr(self.psi), "a regulariser ψ", "E.g. L2(0.1).")
        require_bool("Layer.private", self.private)
        is_plain = self.sigma == 0 and self.lam == 0 and isinstance(self.psi, (Anchor, Zero))
        require(
            not self.private or is_plain, "Layer.private", "True together with ψ, σ or λ",
            "the only one of these settings", "Private layers have no global model to move to.",
        )  # fmt: skip


@final
@settings
class Layers:
    """Settings of Fed+ for each group of layers.

    Args:
        parts: Pattern ↦ ``Layer``. A parameter belongs to the first pattern that matches its name.
        layout: Name and size of each parameter in raveled order (``fedplus.models.ravel`` returns it).

    The head of this network stays with each party, and the rest is averaged (FedPer):

    >>> layout = (("body/weight", 4), ("head/weight", 2))
    >>> layers = Layers({"head/*": Layer(private=True), "*": Layer(lam=1.0)}, layout)
    >>> layers.method(eta=0.1, over="active").private.names
    ('head/weight',)
    """

    parts: Mapping[str, Layer]
    layout: Layout = static_field()

    def __post_init__(self) -> None:
        for pattern, part in self.parts.items():
            is_layer = isinstance(part, Layer)
            require(is_layer, f"Layers.parts[{pattern!r}]", repr(part), "a Layer")
        ParameterGroups(tuple(self.parts), self.layout, "Layers.parts")
        # The order decides, and JAX sorts the keys of a plain dict.
        object.__setattr__(self, "parts", OrderedDict(self.parts))

    def method(
        self, *, eta: Any, aggregate: AbstractAggregator | None = None, **settings: Any
    ) -> FedPlus:
        """Return the method with these layers.

        Args:
            eta: Learning rate η > 0 of the layers that have none of their own.
            aggregate: The aggregator of all layers that are sent. None: the one of each ψ.
            settings: Other settings of ``FedPlus`` and ``LocalSolve``, e.g. ``over`` or ``optimizer``.
        """
        private = tuple(pattern for pattern, part in self.parts.items() if part.private)
        has_own_eta = any(part.eta is not None for part in self.parts.values())
        windows: dict[str, Any] = {}
        if any(part.begin_step or part.end_step is not None for part in self.parts.values()):
            windows["begin_step"] = self._by_layer(lambda part: part.begin_step)
            windows["end_step"] = self._by_layer(
                lambda part: NEVER if part.end_step is None else part.end_step
            )
        psis = {p: Zero() if part.private else part.psi for p, part in self.parts.items()}
        local = LocalSolve(
            psi=Blocks(psis, self.layout),
            eta=self._by_layer(lambda part: eta if part.eta is None else part.eta)
            if has_own_eta
            else eta,
            sigma=self._by_layer(lambda part: part.sigma),
            lam=self._by_layer(lambda part: part.lam),
            **windows,
        )
        own = PrivateLayers(self._first_matches(private), self.layout) if private else None
        return FedPlus(local, aggregate, private=own).replace(**settings)

    def _by_layer(self, value_of: Any) -> ByLayer:
        return ByLayer({p: value_of(part) for p, part in self.parts.items()}, self.layout)

    def _first_matches(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the parameters that belong to these patterns."""
        groups = ParameterGroups(tuple(self.parts), self.layout)
        return tuple(name for name, _ in self.layout if groups.pattern_of(name) in patterns)
