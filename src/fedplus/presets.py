"""The rows of the paper's Table 1, one function per row: every method is a setting of Algorithm 1.

The rows with λ = 1 aggregate only the active parties' models, as their authors do. The Fed+ rows
aggregate the models of all parties, as Algorithm 1 does.

The command line and TOML files read the defaults of these signatures, and take the settings without
one from ``fedplus.experiments.defaults``. δ has a different meaning in each Fed+ row (a share, a radius
of the whole vector, a threshold per coordinate), so each row has its own default: the best δ on the
validation images of ``digits-robust`` (``examples/choose.py``), for which it was tuned.
``fedplus.tune`` finds a better one for your data.
"""

from collections.abc import Mapping

from fedplus._types import Layout
from fedplus.aggregation import CoordinateMedian, GeometricMedian, Mean
from fedplus.algorithm import FedPlus
from fedplus.local import LocalSolve
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Quadratic, Zero


def local_sgd(*, eta: float) -> FedPlus:
    """Local SGD: every party trains alone (λ = 0, σ = 0, ψ = 0).

    Args:
        eta: Learning rate η > 0.

    Returns:
        The method. Its global model, the mean, is for reference only; no party uses it.

    Paper: Table 1, row "Local SGD without FL"; Corollary 1 (a).
    """
    return FedPlus(LocalSolve(psi=Zero(), eta=eta))


def fedavg(*, eta: float) -> FedPlus:
    """FedAvg: one global model, the mean (λ = 1, σ = 0).

    Args:
        eta: Learning rate η > 0.

    Returns:
        The method.

    Paper: Table 1. McMahan et al., Communication-Efficient Learning of Deep Networks, AISTATS 2017.
    """
    return FedPlus(LocalSolve(psi=Anchor(), eta=eta, lam=1.0), Mean(), over="active")


def rfa(*, eta: float) -> FedPlus:
    """RFA: one global model, the geometric median (λ = 1, σ = 0).

    Args:
        eta: Learning rate η > 0.

    Returns:
        The method.

    Paper: Table 1. Pillutla, Kakade and Harchaoui, Robust Aggregation for Federated Learning, 2019.
    """
    return FedPlus(LocalSolve(psi=Anchor(), eta=eta, lam=1.0), GeometricMedian(), over="active")


def coordinate_median(*, eta: float) -> FedPlus:
    """Coordinatewise median: one global model, the median of each coordinate (λ = 1, σ = 0).

    Args:
        eta: Learning rate η > 0.

    Returns:
        The method.

    Paper: Table 1. Yin, Chen, Kannan and Bartlett, Byzantine-Robust Distributed Learning, ICML 2018.
    """
    return FedPlus(LocalSolve(psi=Anchor(), eta=eta, lam=1.0), CoordinateMedian(), over="active")


def fedprox(*, eta: float, sigma: float) -> FedPlus:
    """FedProx: FedAvg with steps that move towards the global model (λ = 1, σ > 0, v_k = 0).

    Args:
        eta: Learning rate η > 0.
        sigma: Penalty constant σ ≥ 0, FedProx's μ; the larger, the nearer a party stays to w̃.

    Returns:
        The method.

    Paper: Table 1. Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020.
    """
    return FedPlus(LocalSolve(psi=Anchor(), eta=eta, sigma=sigma, lam=1.0), Mean(), over="active")


def fedavg_plus(*, eta: float, sigma: float, delta: float = 0.1, lam: float = 0.0) -> FedPlus:
    """FedAvg+: personal models around the mean (σ > 0, ψ = (δ/2)‖·‖²).

    Args:
        eta: Learning rate η > 0.
        sigma: Penalty constant σ ≥ 0; the larger, the nearer a party stays to its anchor w̃ + v_k.
        delta: Share δ > 0: the personal part is (w_k − w̃)/(1 + δ), so a small δ is nearly local SGD.
            The default was tuned on ``digits-robust``.
        lam: λ in [0, 1], where a round starts: 0 at the party's own model, 1 at w̃.

    Returns:
        The method.

    Paper: Table 1; "Proposed Variants of Fed+". λ is 0 except on Sent140, where it is 0.001.
    """
    return FedPlus(LocalSolve(psi=Quadratic(delta), eta=eta, sigma=sigma, lam=lam))


def fedgeomed_plus(*, eta: float, sigma: float, delta: float = 0.3, lam: float = 0.0) -> FedPlus:
    """FedGeoMed+: personal models around the δ-geometric median (σ > 0, ψ = δ‖·‖₂).

    Args:
        eta: Learning rate η > 0.
        sigma: Penalty constant σ ≥ 0; the larger, the nearer a party stays to its anchor w̃ + v_k.
        delta: Radius δ > 0: a party whose whole model is within δ of w̃ has no personal part.
            The default was tuned on ``digits-robust``.
        lam: λ in [0, 1], where a round starts: 0 at the party's own model, 1 at w̃.

    Returns:
        The method.

    Paper: Table 1; "Proposed Variants of Fed+". λ is 0 except on Sent140, where it is 0.001.
    """
    return FedPlus(LocalSolve(psi=L2(delta), eta=eta, sigma=sigma, lam=lam))


def fedcomed_plus(*, eta: float, sigma: float, delta: float = 0.003, lam: float = 0.0) -> FedPlus:
    """FedCoMed+: personal models around the δ-coordinatewise median (σ > 0, ψ = δ‖·‖₁).

    Args:
        eta: Learning rate η > 0.
        sigma: Penalty constant σ ≥ 0; the larger, the nearer a party stays to its anchor w̃ + v_k.
        delta: Threshold δ > 0: a coordinate of w_k within δ of w̃'s has no personal part.
            The default was tuned on ``digits-robust``.
        lam: λ in [0, 1], where a round starts: 0 at the party's own model, 1 at w̃.

    Returns:
        The method.

    Paper: Table 1; "Proposed Variants of Fed+". λ is 0 except on Sent140, where it is 0.001.
    """
    return FedPlus(LocalSolve(psi=L1(delta), eta=eta, sigma=sigma, lam=lam))


def hybrid(
    parts: Mapping[str, AbstractPsi], layout: Layout, *, eta: float, sigma: float
) -> FedPlus:
    """Hybrid Fed+: personal models, a different ψ and aggregation for each group of layers (λ = 0).

    E.g. ``hybrid({"head/*": L1(0.1), "*": Quadratic(0.001)}, layout, eta=0.02, sigma=1.0)``.

    Args:
        parts: The ψ of each group of layers, by a pattern that matches the names of its parameters.
        layout: Name and size of each parameter, as ``fedplus.models.ravel`` returns it.
        eta: Learning rate η > 0.
        sigma: Penalty constant σ ≥ 0; the larger, the nearer a party stays to its anchor w̃ + v_k.

    Returns:
        The method.

    Paper: "Hybridization via the Unified Fed+ Framework with Layer-specific Ψ".
    """
    return FedPlus(LocalSolve(psi=Blocks(parts, layout), eta=eta, sigma=sigma))
