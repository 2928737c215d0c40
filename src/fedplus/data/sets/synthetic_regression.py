"""``synthetic-regression``: linear regression on 1,000 features, from the paper's Table 2."""

import numpy as np

from fedplus.check import require
from fedplus.data.federation import Federation
from fedplus.data.metadata import Metadata
from fedplus.data.sets.base import DataSet
from fedplus.data.sets.synthetic import GENERATION


def make(
    *, seed: int, parties: int = 10, features: int = 1000, samples: int = 100, scale: float = 0.5,
    test_share: float = 0.5, validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Generate y = w_k·x + v, v ~ N(0, 2), x ~ N(μ_k, Σ), μ_k ~ N(0, 0.5) in every entry.

    Σ_jj = (1 + (j − 1) mod 50)^−1.1; w_k is w̄ ~ N(0, 5I) plus Laplacian noise. The last party has
    another w̄ ~ N(0, 50I). The second numbers are variances (deviation D6 in docs/deviations.md).

    Args:
        seed: Seed of all random numbers.
        parties: Number N of parties; the last one is the outlier.
        features: Number d of features.
        samples: Number of samples of a party.
        scale: Scale of the Laplacian noise.
        test_share: Share of a party's samples for testing; 0.5 in the paper.
        validation_share: Share of the training samples for validation.
    """
    require(parties >= 2, "parties", parties, "at least 2", "The last one is the outlier.")
    rng = np.random.default_rng((seed, GENERATION))
    deviation = (1 + np.arange(features) % 50) ** -0.55
    shared = np.sqrt(5) * rng.standard_normal(features)
    outlier = np.sqrt(50) * rng.standard_normal(features)
    pairs = []
    for k in range(parties):
        centre = shared if k < parties - 1 else outlier
        weight = centre + rng.laplace(scale=scale, size=features)
        mean = np.sqrt(0.5) * rng.standard_normal(features)
        x = mean + deviation * rng.standard_normal((samples, features))
        y = x @ weight + np.sqrt(2) * rng.standard_normal(samples)
        pairs.append((x.astype(np.float32), y.astype(np.float32)))
    federation = Federation.from_arrays(
        pairs, seed=seed, test_share=test_share, validation_share=validation_share
    )
    return federation._replace(info=Metadata(outliers=federation.names[-1:]))


SET = DataSet(
    "synthetic-regression", make, "linear regression on 1,000 features; the last party is an outlier",
    "Generated, as the paper says", "none needed",
    "Σ_jj = mod(j, 50)^−1.1 is infinite at j = 50, 100, ...: here mod is taken from 1 to 50 (D5), "
    "which changes nothing else. N(m, s) is read as a variance, as in N(0, 5I) (D6).",
)  # fmt: skip
