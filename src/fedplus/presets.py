"""Table 1 of the paper, one function a row: every method is a setting of Algorithm 1.

The rows with λ = 1 aggregate the active parties, as their authors do; the Fed+ rows aggregate all,
as Algorithm 1 does. Their λ is 0 unless it is given; the paper gives 0.001 on Sent140.

The defaults here are the only ones: the command line and TOML files read them from these signatures.
δ means something else in each Fed+ row (a share, a radius of the whole vector, a threshold for each
coordinate), so each has its own default. They are the best δ on validation images of
``digits-robust`` (``examples/choose.py``): a place to start, which ``fedplus.tune`` can improve on.
"""

from collections.abc import Mapping

from fedplus._types import Layout
from fedplus.aggregation import CoordinateMedian, GeometricMedian, Mean
from fedplus.algorithm import FedPlus
from fedplus.local import LocalSolve
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Quadratic, Zero


def local_sgd(*, eta: float) -> FedPlus:
    """λ = 0, σ = 0: every party on its own. The mean is kept for reference and used by nobody."""
    return FedPlus(LocalSolve(psi=Zero(), eta=eta))


def fedavg(*, eta: float) -> FedPlus:
    """Mean, λ = 1, σ = 0 (McMahan et al., 2017)."""
    return FedPlus(LocalSolve(psi=Anchor(), eta=eta, lam=1.0), Mean(), over="active")


def rfa(*, eta: float) -> FedPlus:
    """Geometric median, λ = 1, σ = 0 (Pillutla et al., 2019)."""
    return FedPlus(LocalSolve(psi=Anchor(), eta=eta, lam=1.0), GeometricMedian(), over="active")


def coordinate_median(*, eta: float) -> FedPlus:
    """Coordinatewise median, λ = 1, σ = 0 (Yin et al., 2018)."""
    return FedPlus(LocalSolve(psi=Anchor(), eta=eta, lam=1.0), CoordinateMedian(), over="active")


def fedprox(*, eta: float, sigma: float) -> FedPlus:
    """Mean, λ = 1, σ > 0, v_k = 0: its μ is our σ (Li et al., 2020)."""
    return FedPlus(LocalSolve(psi=Anchor(), eta=eta, sigma=sigma, lam=1.0), Mean(), over="active")


def fedavg_plus(*, eta: float, sigma: float, delta: float = 0.1, lam: float = 0.0) -> FedPlus:
    """Mean, λ = 0, σ > 0, personal models."""
    return FedPlus(LocalSolve(psi=Quadratic(delta), eta=eta, sigma=sigma, lam=lam))


def fedgeomed_plus(*, eta: float, sigma: float, delta: float = 0.3, lam: float = 0.0) -> FedPlus:
    """δ-geometric median, λ = 0, σ > 0, personal models."""
    return FedPlus(LocalSolve(psi=L2(delta), eta=eta, sigma=sigma, lam=lam))


def fedcomed_plus(*, eta: float, sigma: float, delta: float = 0.003, lam: float = 0.0) -> FedPlus:
    """δ-coordinatewise median, λ = 0, σ > 0, personal models."""
    return FedPlus(LocalSolve(psi=L1(delta), eta=eta, sigma=sigma, lam=lam))


def hybrid(
    parts: Mapping[str, AbstractPsi], layout: Layout, *, eta: float, sigma: float
) -> FedPlus:
    """A ψ and an aggregation for each group of layers, λ = 0, σ > 0, personal models.

    E.g. ``hybrid({"head/*": L1(0.1), "*": Quadratic(0.001)}, layout, eta=0.02, sigma=1.0)``.
    """
    return FedPlus(LocalSolve(psi=Blocks(parts, layout), eta=eta, sigma=sigma))
