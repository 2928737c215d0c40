"""``synthetic``: FedProx's synthetic(ζ, β) with the paper's thirty parties."""

import math
from typing import Literal

import numpy as np

from fedplus._types import Host
from fedplus.check import require, require_number
from fedplus.data.federation import Federation
from fedplus.data.metadata import Metadata
from fedplus.data.sets.base import DataSet

FEATURES, CLASSES = 60, 10
GENERATED = 5
"""What its random numbers are for: see ``holdout``."""
INFO = Metadata(classes=tuple(map(str, range(CLASSES))))


def make(
    *, seed: int, zeta: float = 1000.0, beta: float = 10.0, own: float = 1.0, centre: float = 1.0,
    parties: int = 30, reading: Literal["variance", "deviation"] = "variance",
    test_share: float = 0.2, validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Y = argmax(W_k x + b_k) with x ~ N(v_k, Σ), Σ_jj = j^−1.2.

    W_k and b_k ~ N(u_k, 1), u_k ~ N(0, ζ); v_k ~ N(B_k, 1), B_k ~ N(0, β). Party k has
    50 + ⌊lognormal(4, 2)⌋ samples.

    Whatever ζ and β are, the parties' models are independent and, since v_k moves the logits of a party
    further than its samples do, most of its samples have one label. ``own`` and ``centre`` change that.

    Args:
        seed: Of everything.
        zeta: ζ. It moves all ten logits of a party alike, so no label depends on it (D10).
        beta: β.
        own: Share of the variance of W_k and b_k about u_k that is the party's own; the rest all
            parties have in common. FedProx's and the paper's is 1.
        centre: s of v_k ~ N(B_k, s). FedProx's and the paper's is 1.
        parties: N.
        reading: Whether s in N(m, s) is a variance or a standard deviation (D6).
        test_share: The paper's is 0.2.
        validation_share: Of the training samples.
    """
    require_number(zeta, "zeta", least=0)
    require_number(beta, "beta", least=0)
    require_number(own, "own", least=0, most=1)
    require_number(centre, "centre", least=0)
    ways = ("variance", "deviation")
    require(reading in ways, "reading", repr(reading), " or ".join(ways))
    power = 0.5 if reading == "variance" else 1.0
    spread = np.arange(1, FEATURES + 1) ** -0.6
    common = np.random.default_rng((seed, GENERATED, 0)).standard_normal((FEATURES + 1, CLASSES))
    pairs = []
    for k in range(parties):
        rng = np.random.default_rng((seed, GENERATED, k + 1))
        size = 50 + math.floor(rng.lognormal(4, 2))
        u, middle = zeta**power * rng.standard_normal(), beta**power * rng.standard_normal()
        weight = u + _mixed(own, rng.standard_normal((FEATURES, CLASSES)), common[1:])
        bias = u + _mixed(own, rng.standard_normal(CLASSES), common[0])
        mean = middle + centre**power * rng.standard_normal(FEATURES)
        x = mean + spread * rng.standard_normal((size, FEATURES))
        # u adds u·(1 + Σ x) to every logit: taken out, nothing large is left to round the rest away.
        y = (x @ (weight - u) + (bias - u)).argmax(1)
        pairs.append((x.astype(np.float32), y.astype(np.int32)))
    federation = Federation.from_arrays(
        pairs, seed=seed, test_share=test_share, validation_share=validation_share
    )
    return federation._replace(info=INFO)


def _mixed(own: float, mine: Host, common: Host) -> Host:
    """Of variance 1, a share of it one's own."""
    mixed: Host = np.sqrt(own) * mine + np.sqrt(1 - own) * common
    return mixed


SET = DataSet(
    "synthetic", make, "FedProx's synthetic(ζ, β), 30 parties of very different sizes",
    "Generated: Li et al., Federated Optimization in Heterogeneous Networks (FedProx)",
    "none needed",
    "ζ cannot change a label, for it moves every logit alike (D10). FedProx's code overflows there "
    "and labels most rows 0; here the argmax is exact. N(m, s) is read as a variance, as the "
    "paper's N(0, 5I) has it (D6); reading='deviation' is FedProx's code.",
)  # fmt: skip
