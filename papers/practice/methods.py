"""The methods of the study, each as a function from its settings to the algorithm.

Methods of one family differ in numbers only, so that one program trains all their candidates.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from fedplus import baselines, presets
from fedplus._types import Layout
from fedplus.aggregation import GeometricMedian, Mean
from fedplus.algorithm import AbstractAlgorithm, FedPlus
from fedplus.layers import Layer, Layers
from fedplus.local import LocalSolve
from fedplus.psi import L2, Anchor
from fedplus.schedules import WarmUp

Settings = dict[str, Any]
QUARTER = 0.25
"""The fixed share of the rounds with λ = 1 of the methods named "quarter"."""


class Context(NamedTuple):
    """Quantities of a federation and its training on which a method may depend."""

    rounds: int
    steps: int
    layout: Layout


class Method(NamedTuple):
    """A method of the study, with its grid and the function that makes it from settings."""

    family: str
    label: str
    grid: str
    """The name of its grid in ``grids.toml``."""
    make: Callable[[Settings, Context], AbstractAlgorithm[Any]]
    warm_up: bool = False
    """True if the share of rounds with λ = 1 is one of the tuned settings."""


def _warm_up(share: float, context: Context) -> WarmUp:
    return WarmUp(rounds=round(share * context.rounds))


def _anchored(settings: Settings, context: Context, aggregate: Any, share: float = 0.0) -> FedPlus:
    """Return MR-MTL as a setting of Algorithm 1: ψ = Anchor, over the active parties."""
    local = LocalSolve(
        psi=Anchor(), eta=settings["eta"], sigma=settings["sigma"], lam=_warm_up(share, context)
    )
    return FedPlus(local, aggregate, over="active")


def _fedgeomed_plus(
    settings: Settings, context: Context, share: float, join: Any = "current"
) -> FedPlus:
    numbers = {name: settings[name] for name in ("eta", "sigma", "delta")}
    return presets.fedgeomed_plus(**numbers).replace(lam=_warm_up(share, context), join=join)


def _fedavg_plus(settings: Settings, context: Context, share: float) -> FedPlus:
    numbers = {name: settings[name] for name in ("eta", "sigma", "delta")}
    return presets.fedavg_plus(**numbers).replace(lam=_warm_up(share, context))


def _private_head(settings: Settings, context: Context) -> FedPlus:
    """Return FedGeoMed+ for all layers but the head, which stays with each party."""
    shared = Layer(
        psi=L2(settings["delta"]), sigma=settings["sigma"],
        lam=_warm_up(settings["share"], context),
    )  # fmt: skip
    layers = Layers({"head/*": Layer(private=True), "*": shared}, context.layout)
    return layers.method(eta=settings["eta"])


MAIN: dict[str, Method] = {
    "local": Method("local", "Local", "eta", lambda s, c: presets.local_sgd(**s)),
    "fedavg": Method("fedavg", "FedAvg", "eta", lambda s, c: presets.fedavg(**s)),
    "fedavg-ft": Method(
        "fedavg-ft", "FedAvg, fine-tuned", "fine-tune", lambda s, c: presets.fedavg_ft(**s)
    ),
    "ditto": Method("ditto", "Ditto", "ditto", lambda s, c: baselines.Ditto(**s)),
    "apfl": Method("apfl", "APFL", "apfl", lambda s, c: baselines.APFL(**s)),
    "mr-mtl": Method("mr-mtl", "MR-MTL", "anchor", lambda s, c: _anchored(s, c, Mean())),
    "mr-mtl-warm": Method(
        "mr-mtl", "MR-MTL, warm-up", "anchor",
        lambda s, c: _anchored(s, c, Mean(), s["share"]), warm_up=True,
    ),
    "mr-mtl-gm": Method(
        "mr-mtl-gm", "MR-MTL, geometric median", "anchor",
        lambda s, c: _anchored(s, c, GeometricMedian()),
    ),
    "mr-mtl-gm-warm": Method(
        "mr-mtl-gm", "MR-MTL, geometric median, warm-up", "anchor",
        lambda s, c: _anchored(s, c, GeometricMedian(), s["share"]), warm_up=True,
    ),
    "fedgeomed+first": Method(
        "fedgeomed+first", "FedGeoMed+, join first", "geometric-median",
        lambda s, c: _fedgeomed_plus(s, c, 0.0, "first"),
    ),
    "fedgeomed+first-quarter": Method(
        "fedgeomed+first", "FedGeoMed+, join first, quarter", "geometric-median",
        lambda s, c: _fedgeomed_plus(s, c, QUARTER, "first"),
    ),
    "fedgeomed+": Method(
        "fedgeomed+", "FedGeoMed+", "geometric-median", lambda s, c: _fedgeomed_plus(s, c, 0.0)
    ),
    "fedgeomed+quarter": Method(
        "fedgeomed+", "FedGeoMed+, quarter", "geometric-median",
        lambda s, c: _fedgeomed_plus(s, c, QUARTER),
    ),
    "fedgeomed+warm": Method(
        "fedgeomed+", "FedGeoMed+, warm-up", "geometric-median",
        lambda s, c: _fedgeomed_plus(s, c, s["share"]), warm_up=True,
    ),
    "fedavg+warm": Method(
        "fedavg+", "FedAvg+, warm-up", "mean",
        lambda s, c: _fedavg_plus(s, c, s["share"]), warm_up=True,
    ),
}  # fmt: skip
"""The methods on all federations but those of the question which layers should be private."""

LAYERS: dict[str, Method] = {
    **{
        name: MAIN[name]
        for name in ("local", "fedavg", "ditto", "mr-mtl-gm", "mr-mtl-gm-warm", "fedgeomed+warm")
    },
    "fedper": Method(
        "fedper", "FedPer: head private", "eta", lambda s, c: presets.fedper(c.layout, **s)
    ),
    "lg-fedavg": Method(
        "lg-fedavg", "LG-FedAvg: body private", "eta",
        lambda s, c: presets.lg_fedavg(c.layout, **s),
    ),
    "fedrep": Method(
        "fedrep", "FedRep: head private, first", "head-steps",
        lambda s, c: presets.fedrep(
            c.layout, eta=s["eta"], head_steps=round(s["head_share"] * c.steps)
        ),
    ),
    "fedbabu": Method(
        "fedbabu", "FedBABU: head fixed, fine-tuned", "fine-tune",
        lambda s, c: presets.fedbabu(c.layout, **s),
    ),
    "fedgeomed+head": Method(
        "fedgeomed+head", "FedGeoMed+, head private, warm-up", "geometric-median", _private_head,
        warm_up=True,
    ),
}  # fmt: skip
"""The methods that differ in the layers that stay private."""

FAMILIES: dict[str, dict[str, Method]] = {"main": MAIN, "layers": LAYERS}


def families(methods: dict[str, Method]) -> dict[str, dict[str, Method]]:
    """Return the methods of each family."""
    found: dict[str, dict[str, Method]] = {}
    for name, method in methods.items():
        found.setdefault(method.family, {})[name] = method
    return found
