"""``synthetic``: FedProx's synthetic(ζ, β) with the paper's 30 parties."""

import math
from typing import Literal

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require, require_number
from fedplus.data.federation import Federation
from fedplus.data.metadata import Metadata
from fedplus.data.sets.base import DataSet

FEATURES, CLASSES = 60, 10
GENERATION = 5
"""Identifier of the random stream, next to those of ``holdout``."""
INFO = Metadata(classes=tuple(map(str, range(CLASSES))))


def make(
    *, seed: int, zeta: float = 1000.0, beta: float = 10.0, own: float = 1.0, centre: float = 1.0,
    parties: int = 30, reading: Literal["variance", "deviation"] = "variance",
    test_share: float = 0.2, validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Generate y = argmax(W_k x + b_k) with x ~ N(v_k, Σ), Σ_jj = j^−1.2.

    W_k and b_k ~ N(u_k, 1), u_k ~ N(0, ζ); v_k ~ N(B_k, 1), B_k ~ N(0, β). Party k has
    50 + ⌊lognormal(4, 2)⌋ samples.

    For all ζ and β the parties' models are independent, and most samples of a party have one label,
    because v_k shifts the party's logits more than its samples differ. ``own`` and ``centre`` change
    this.

    Args:
        seed: Seed of all random numbers.
        zeta: ζ. It shifts all ten logits of a party equally, so no label depends on it
            (deviation D10 in docs/deviations.md).
        beta: β.
        own: Share of the variance of W_k and b_k around u_k that is the party's own; all parties share
            the rest. It is 1 for FedProx and the paper.
        centre: s in v_k ~ N(B_k, s). It is 1 for FedProx and the paper.
        parties: Number N of parties.
        reading: Whether s in N(m, s) is a "variance" or a standard "deviation" (deviation D6 in
            docs/deviations.md).
        test_share: Share of a party's samples for testing; 0.2 in the paper.
        validation_share: Share of the training samples for validation.
    """
    require_number(zeta, "zeta", least=0)
    require_number(beta, "beta", least=0)
    require_number(own, "own", least=0, most=1)
    require_number(centre, "centre", least=0)
    readings = ("variance", "deviation")
    require(reading in readings, "reading", repr(reading), " or ".join(readings))
    power = 0.5 if reading == "variance" else 1.0
    deviation = np.arange(1, FEATURES + 1) ** -0.6
    shared = np.random.default_rng((seed, GENERATION, 0)).standard_normal((FEATURES + 1, CLASSES))
    pairs = []
    for k in range(parties):
        rng = np.random.default_rng((seed, GENERATION, k + 1))
        size = 50 + math.floor(rng.lognormal(4, 2))
        u, middle = zeta**power * rng.standard_normal(), beta**power * rng.standard_normal()
        weight = u + _mix(own, rng.standard_normal((FEATURES, CLASSES)), shared[1:])
        bias = u + _mix(own, rng.standard_normal(CLASSES), shared[0])
        mean = middle + centre**power * rng.standard_normal(FEATURES)
        x = mean + deviation * rng.standard_normal((size, FEATURES))
        # u adds u·(1 + Σ x) to every logit; without it float rounding cannot change the argmax.
        y = (x @ (weight - u) + (bias - u)).argmax(1)
        pairs.append((x.astype(np.float32), y.astype(np.int32)))
    federation = Federation.from_arrays(
        pairs, seed=seed, test_share=test_share, validation_share=validation_share
    )
    return federation._replace(info=INFO)


def _mix(own: float, individual: NumpyArray, shared: NumpyArray) -> NumpyArray:
    """Return a mixture of variance 1, of which the share ``own`` is individual."""
    mixture: NumpyArray = np.sqrt(own) * individual + np.sqrt(1 - own) * shared
    return mixture


SET = DataSet(
    "synthetic", make, "FedProx's synthetic(ζ, β), 30 parties of very different sizes",
    "Generated: Li et al., Federated Optimization in Heterogeneous Networks (FedProx)",
    "none needed",
    "ζ cannot change a label, because it shifts every logit equally (D10). FedProx's code overflows "
    "and labels most rows 0; here the argmax is exact. N(m, s) is read as a variance, as the "
    "paper's N(0, 5I) has it (D6); reading='deviation' is FedProx's code.",
)  # fmt: skip
