"""Instances of every baseline, whose settings make every part of it matter, for the common suite."""

import fedplus as fp
from fedplus import baselines as b

EVERY = {
    "scaffold-1": b.Scaffold(eta_l=0.05, eta_g=0.8, option=1),
    "scaffold-2": b.Scaffold(eta_l=0.05, eta_g=0.8, option=2),
    "pfedme": b.PFedMe(eta=0.05, lam=2.0, eta_inner=0.1, inner=3, beta=0.7),
    "perfedavg-fo": b.PerFedAvg(alpha=0.05, beta=0.1, variant="fo"),
    "perfedavg-hf": b.PerFedAvg(alpha=0.05, beta=0.1, variant="hf", delta=0.1),
    "apfl": b.APFL(eta=0.1, alpha=0.3),
    "apfl-fixed": b.APFL(eta=0.1, alpha=0.3, adaptive=False),
    "ditto": b.Ditto(eta=0.1, lam=0.5),
    "ditto-robust": b.Ditto(eta=0.1, lam=0.5, aggregate=fp.CoordinateMedian()),
    "l2gd": b.L2GD(alpha=0.3, lam=0.5, p=0.3),
    "hypcluster": b.HypCluster(eta=0.1, q=2, spread=0.5),
    "mapper": b.Mapper(eta=0.1, eta_c=0.3, lambdas=(0.0, 0.3, 0.8)),
    "fedfomo": b.FedFomo(eta=0.1, m=2, epsilon=0.5),
    "fedsplit": b.FedSplit(s=1.0, eta=0.1),
    "localupdate": b.LocalUpdate(eta=0.1, gamma=0.05),
    "localupdate-last": b.LocalUpdate(eta=0.1, gamma=0.05, theta="last"),
}
PERSONAL = [
    "pfedme", "apfl", "apfl-fixed", "ditto", "ditto-robust", "l2gd", "hypcluster", "mapper", "fedfomo",
]  # fmt: skip
