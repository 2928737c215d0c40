"""The rows of the paper's Table 1 and other published methods that are settings of Algorithm 1.

The rows with λ = 1 aggregate only the active parties' models, as their authors do. The Fed+ rows
aggregate the models of all parties, as Algorithm 1 does.

The command line and TOML files read the defaults of these signatures, and take the settings without
one from ``fedplus.experiments.defaults``. δ has a different meaning in each Fed+ row (a share, a radius
of the whole vector, a threshold per coordinate), so each row has its own default: the best δ on the
validation images of ``digits-robust`` (``examples/choose.py``), for which it was tuned.
``fedplus.tune`` finds a better one for your data.
"""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fedplus._types import Layout
from fedplus.aggregation import AbstractAggregator, CoordinateMedian, GeometricMedian, Mean
from fedplus.algorithm import FedPlus
from fedplus.check import require_number
from fedplus.layers import Layer, Layers
from fedplus.local import LocalSolve
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Quadratic, Zero
from fedplus.schedules import Inverse, combine
from fedplus.server_optimizer import AdaptiveServer, MomentumServer


def local_sgd(*, eta: float) -> FedPlus:
    """Local SGD: every party trains alone (λ = 0, σ = 0, ψ = 0).

    All parties start at the first model (``join="first"``); the current w̃ would be others' work.

    Args:
        eta: Learning rate η > 0.

    Returns:
        The method. Its global model, the mean, is for reference only; no party uses it.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Table 1, row "Local SGD without FL"; Corollary 1 (a).

    >>> local_sgd(eta=0.1).join
    'first'
    """
    return FedPlus(LocalSolve(psi=Zero(), eta=eta), join="first")


def fedavg(*, eta: float) -> FedPlus:
    """FedAvg: one global model, the mean (λ = 1, σ = 0).

    Args:
        eta: Learning rate η > 0.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Table 1. McMahan et al., Communication-Efficient Learning of Deep Networks, AISTATS 2017.

    >>> fedavg(eta=0.1).aggregator
    Mean()
    """
    return FedPlus(LocalSolve(psi=Anchor(), eta=eta, lam=1.0), Mean(), over="active")


def rfa(*, eta: float) -> FedPlus:
    """RFA: one global model, the geometric median (λ = 1, σ = 0).

    Args:
        eta: Learning rate η > 0.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Table 1. Pillutla, Kakade and Harchaoui, Robust Aggregation for Federated Learning, 2019.

    >>> rfa(eta=0.1).aggregator
    GeometricMedian(delta=0.0)
    """
    return FedPlus(LocalSolve(psi=Anchor(), eta=eta, lam=1.0), GeometricMedian(), over="active")


def coordinate_median(*, eta: float) -> FedPlus:
    """Coordinatewise median: one global model, the median of each coordinate (λ = 1, σ = 0).

    Args:
        eta: Learning rate η > 0.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Table 1. Yin, Chen, Kannan and Bartlett, Byzantine-Robust Distributed Learning, ICML 2018.

    >>> coordinate_median(eta=0.1).aggregator
    CoordinateMedian(delta=0.0)
    """
    return FedPlus(LocalSolve(psi=Anchor(), eta=eta, lam=1.0), CoordinateMedian(), over="active")


def fedprox(*, eta: float, sigma: float) -> FedPlus:
    """FedProx: FedAvg with steps that move towards the global model (λ = 1, σ > 0, v_k = 0).

    Args:
        eta: Learning rate η > 0.
        sigma: Penalty constant σ ≥ 0, FedProx's μ; the larger, the nearer a party stays to w̃.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Table 1. Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020.

    >>> round(fedprox(eta=0.1, sigma=1.0).local.kappa, 3)
    0.909
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

    Raises:
        SettingError: A setting is out of its range.

    Paper: Table 1; "Proposed Variants of Fed+". λ is 0 except on Sent140, where it is 0.001.

    >>> fedavg_plus(eta=0.1, sigma=1.0).aggregator
    Moreau(psi=Quadratic(delta=0.1))
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

    Raises:
        SettingError: A setting is out of its range.

    Paper: Table 1; "Proposed Variants of Fed+". λ is 0 except on Sent140, where it is 0.001.

    >>> fedgeomed_plus(eta=0.1, sigma=1.0).aggregator
    Moreau(psi=L2(delta=0.3))
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

    Raises:
        SettingError: A setting is out of its range.

    Paper: Table 1; "Proposed Variants of Fed+". λ is 0 except on Sent140, where it is 0.001.

    >>> fedcomed_plus(eta=0.1, sigma=1.0).aggregator
    Moreau(psi=L1(delta=0.003))
    """
    return FedPlus(LocalSolve(psi=L1(delta), eta=eta, sigma=sigma, lam=lam))


def hybrid(
    parts: Mapping[str, AbstractPsi], layout: Layout, *, eta: float, sigma: float
) -> FedPlus:
    """Hybrid Fed+: personal models, a different ψ and aggregation for each group of layers (λ = 0).

    Args:
        parts: The ψ of each group of layers, by a pattern that matches the names of its parameters.
        layout: Name and size of each parameter, as ``fedplus.models.ravel`` returns it.
        eta: Learning rate η > 0.
        sigma: Penalty constant σ ≥ 0; the larger, the nearer a party stays to its anchor w̃ + v_k.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range, or the patterns do not fit the layout.

    Paper: "Hybridization via the Unified Fed+ Framework with Layer-specific Ψ".

    >>> layout = (("body/weight", 4), ("head/weight", 2))
    >>> parts = {"head/*": L1(0.1), "*": Quadratic(0.001)}
    >>> hybrid(parts, layout, eta=0.02, sigma=1.0).local.psi.parts["head/*"]
    L1(delta=0.1)
    """
    return FedPlus(LocalSolve(psi=Blocks(parts, layout), eta=eta, sigma=sigma))


def layers(
    parts: Mapping[str, Layer],
    layout: Layout,
    *,
    eta: float,
    aggregate: AbstractAggregator | None = None,
    over: Literal["all", "active"] = "all",
) -> FedPlus:
    """Fed+ with a ψ, σ, λ and η for each group of layers, some of which may be private.

    Args:
        parts: The settings of each group of layers, by a pattern over the names of parameters.
        layout: Name and size of each parameter, as ``fedplus.models.ravel`` returns it.
        eta: Learning rate η > 0 of the layers that have none of their own.
        aggregate: The aggregator of all layers that are sent. By default that of each ψ.
        over: The models that are aggregated: of "all" parties, or of the "active" ones.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range, or the patterns do not fit the layout.

    Paper: "Hybridization via the Unified Fed+ Framework with Layer-specific Ψ".

    >>> layout = (("body/weight", 4), ("head/weight", 2))
    >>> parts = {"head/*": Layer(private=True), "*": Layer(lam=1.0)}
    >>> layers(parts, layout, eta=0.1).private.names
    ('head/weight',)
    """
    return Layers(parts, layout).method(eta=eta, aggregate=aggregate, over=over)


def fedper(
    layout: Layout,
    *,
    eta: float,
    private: Sequence[str] = ("head/*",),
    aggregate: AbstractAggregator | None = None,
) -> FedPlus:
    """FedPer: the head stays with each party, the rest is FedAvg's; both are trained together.

    Args:
        layout: Name and size of each parameter, as ``fedplus.models.ravel`` returns it.
        eta: Learning rate η > 0.
        private: Patterns over the names of the parameters that never leave a party.
        aggregate: The aggregator of the shared layers. By default the mean.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range, or the patterns do not fit the layout.

    Paper: Arivazhagan, Aggarwal, Singh and Choudhary, Federated Learning with Personalization Layers,
    2019.

    >>> fedper((("body/weight", 4), ("head/weight", 2)), eta=0.1).private.names
    ('head/weight',)
    """
    return _private_and_averaged(layout, private, Layer(private=True), Layer(lam=1.0)).method(
        eta=eta, aggregate=aggregate, over="active"
    )


def lg_fedavg(
    layout: Layout,
    *,
    eta: float,
    shared: Sequence[str] = ("head/*",),
    aggregate: AbstractAggregator | None = None,
) -> FedPlus:
    """LG-FedAvg: each party has its own body; the head is FedAvg's. Both are trained together.

    Args:
        layout: Name and size of each parameter, as ``fedplus.models.ravel`` returns it.
        eta: Learning rate η > 0.
        shared: Patterns over the names of the parameters that are averaged.
        aggregate: The aggregator of the shared layers. By default the mean.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range, or the patterns do not fit the layout.

    Paper: Liang et al., Think Locally, Act Globally, 2020.

    >>> lg_fedavg((("body/weight", 4), ("head/weight", 2)), eta=0.1).private.names
    ('body/weight',)
    """
    return _private_and_averaged(layout, shared, Layer(lam=1.0), Layer(private=True)).method(
        eta=eta, aggregate=aggregate, over="active"
    )


def fedrep(
    layout: Layout,
    *,
    eta: float,
    private: Sequence[str] = ("head/*",),
    head_steps: int = 10,
    aggregate: AbstractAggregator | None = None,
) -> FedPlus:
    """FedRep: a round trains first the private head alone, then the shared layers alone.

    With the geometric median as aggregator this is BR-MTRL.

    Args:
        layout: Name and size of each parameter, as ``fedplus.models.ravel`` returns it.
        eta: Learning rate η > 0.
        private: Patterns over the names of the parameters of the head, which never leave a party.
        head_steps: The number of steps for the head; a round must have more.
        aggregate: The aggregator of the shared layers. By default the mean.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range, or the patterns do not fit the layout.

    Paper: Collins, Hassani, Mokhtari and Shakkottai, Exploiting Shared Representations for Personalized
    Federated Learning, ICML 2021.

    >>> fedrep((("body/weight", 4), ("head/weight", 2)), eta=0.1).private.names
    ('head/weight',)
    """
    head = Layer(private=True, end_step=head_steps)
    rest = Layer(lam=1.0, begin_step=head_steps)
    return _private_and_averaged(layout, private, head, rest).method(
        eta=eta, aggregate=aggregate, over="active"
    )


def fedbabu(
    layout: Layout,
    *,
    eta: float,
    head: Sequence[str] = ("head/*",),
    fine_tune: int = 10,
    aggregate: AbstractAggregator | None = None,
) -> FedPlus:
    """FedBABU: the head keeps its first values while the rest is FedAvg's; then all is fine-tuned.

    Args:
        layout: Name and size of each parameter, as ``fedplus.models.ravel`` returns it.
        eta: Learning rate η > 0.
        head: Patterns over the names of the parameters that are trained in the fine-tuning only.
        fine_tune: The number of steps with which a party adapts the whole model before it uses it.
        aggregate: The aggregator of the other layers. By default the mean.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range, or the patterns do not fit the layout.

    Paper: Oh, Kim and Yun, FedBABU: Toward Enhanced Representation for Federated Image Classification,
    ICLR 2022.

    >>> fedbabu((("body/weight", 4), ("head/weight", 2)), eta=0.1).adaptation_steps
    10
    """
    frozen = Layer(private=True, eta=0.0)
    return _private_and_averaged(layout, head, frozen, Layer(lam=1.0)).method(
        eta=eta, aggregate=aggregate, over="active", fine_tune=fine_tune
    )


def _private_and_averaged(
    layout: Layout, patterns: Sequence[str], chosen: Layer, rest: Layer
) -> Layers:
    """Return layers with one setting for the parameters that match a pattern and one for the rest."""
    return Layers(dict.fromkeys(patterns, chosen) | {"*": rest}, layout)


def fedavg_ft(
    *, eta: float, fine_tune: int = 10, aggregate: AbstractAggregator | None = None
) -> FedPlus:
    """FedAvg with fine-tuning: each party adapts the global model before it uses it.

    Args:
        eta: Learning rate η > 0, also of the fine-tuning.
        fine_tune: The number of steps of the fine-tuning.
        aggregate: The aggregator. By default the mean.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Ogier du Terrail et al., FLamby, NeurIPS 2022, section 4.3.

    >>> fedavg_ft(eta=0.1).adaptation_steps
    10
    """
    return fedavg(eta=eta).replace(fine_tune=fine_tune, aggregate=aggregate or Mean())


def mr_mtl(*, eta: float, lam: float, aggregate: AbstractAggregator | None = None) -> FedPlus:
    """MR-MTL: personal models, each regularised towards the mean of all (ψ = Anchor, λ = 0).

    Its gradient step on f_k(w) + (λ/2)‖w − w̃‖² is line 13 of Algorithm 1 with σ = λ and the learning
    rate η/(1 − ηλ), so ηλ must be less than 1.

    Args:
        eta: Learning rate η > 0.
        lam: Strength λ ≥ 0 of the regularisation: 0 is local training, a large λ is nearly FedAvg.
        aggregate: The aggregator. By default the mean.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range, or ηλ ≥ 1.

    Paper: Liu, Hu, Wu and Smith, On Privacy and Personalization in Cross-Silo Federated Learning,
    NeurIPS 2022.

    >>> round(mr_mtl(eta=0.1, lam=0.5).local.eta, 3)
    0.105
    """
    product = combine(operator.mul, eta, lam)
    require_number(product, "mr_mtl's eta · lam", least=0, below=1, advice="Take a smaller eta.")
    local = LocalSolve(psi=Anchor(), eta=combine(_mr_mtl_rate, eta, lam), sigma=lam)
    return FedPlus(local, aggregate or Mean(), over="active", fine_tune_eta=eta)


def _mr_mtl_rate(eta: Any, lam: Any) -> Any:
    return eta / (1 - eta * lam)


def fedavg_decay(*, eta: float, rate: float = 1.0) -> FedPlus:
    """FedAvg with the decreasing learning rate η/(1 + rate · t) in round t.

    Args:
        eta: Learning rate η > 0 of the first round.
        rate: How fast it decreases.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Li, Huang, Yang, Wang and Zhang, On the Convergence of FedAvg on Non-IID Data, ICLR 2020.

    >>> fedavg_decay(eta=0.1).local.eta(1)
    0.05
    """
    schedule: Any = Inverse(eta, rate)
    return fedavg(eta=schedule)


def local_fixed_point(*, eta: float, relaxation: float = 0.5) -> FedPlus:
    """Local Fixed Point: relaxed gradient steps w ← (1 − λ) w + λ (w − η∇f_k(w)), then the mean.

    With gradient steps as the parties' operators this is FedAvg with the learning rate λη.

    Args:
        eta: Learning rate η > 0 of the gradient step, the operator of a party.
        relaxation: λ in (0, 1], the share of the operator in a step.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Malinovsky et al., From Local SGD to Local Fixed-Point Methods, ICML 2020, Algorithm 1.

    >>> local_fixed_point(eta=0.1, relaxation=0.5).local.eta
    0.05
    """
    require_number(relaxation, "local_fixed_point's relaxation", above=0, most=1)
    return fedavg(eta=combine(operator.mul, eta, relaxation)).replace(fine_tune_eta=eta)


def fedavgm(*, eta: float, eta_server: float = 1.0, beta: float = 0.9) -> FedPlus:
    """FedAvgM: FedAvg with momentum on the server.

    Args:
        eta: Learning rate η > 0 of the parties.
        eta_server: Learning rate η_s > 0 of the server.
        beta: β in [0, 1), the share of the last step that is repeated.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Hsu, Qi and Brown, Measuring the Effects of Non-Identical Data Distribution, 2019.

    >>> fedavgm(eta=0.1).server_optimizer
    MomentumServer(eta=1.0, beta=0.9)
    """
    return fedavg(eta=eta).replace(server_optimizer=MomentumServer(eta_server, beta))


def fedadam(
    *,
    eta: float,
    eta_server: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
) -> FedPlus:
    """FedAdam: FedAvg with Adam on the server.

    Args:
        eta: Learning rate η > 0 of the parties.
        eta_server: Learning rate η_s > 0 of the server.
        beta1: β₁ in [0, 1), the share of the last average of the updates.
        beta2: β₂ in [0, 1), the same for their squares.
        tau: τ > 0, which bounds the step where updates are small.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2.

    >>> fedadam(eta=0.1).server_optimizer
    AdaptiveServer(rule='adam', eta=0.01, beta1=0.9, beta2=0.99, tau=0.001)
    """
    return fedavg(eta=eta).replace(
        server_optimizer=AdaptiveServer("adam", eta_server, beta1, beta2, tau)
    )


def fedyogi(
    *,
    eta: float,
    eta_server: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
) -> FedPlus:
    """FedYogi: FedAvg with Yogi on the server.

    Args:
        eta: Learning rate η > 0 of the parties.
        eta_server: Learning rate η_s > 0 of the server.
        beta1: β₁ in [0, 1), the share of the last average of the updates.
        beta2: β₂ in [0, 1), the same for their squares.
        tau: τ > 0, which bounds the step where updates are small.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2.

    >>> fedyogi(eta=0.1).server_optimizer
    AdaptiveServer(rule='yogi', eta=0.01, beta1=0.9, beta2=0.99, tau=0.001)
    """
    return fedavg(eta=eta).replace(
        server_optimizer=AdaptiveServer("yogi", eta_server, beta1, beta2, tau)
    )


def fedadagrad(
    *, eta: float, eta_server: float = 0.1, beta1: float = 0.0, tau: float = 1e-3
) -> FedPlus:
    """FedAdagrad: FedAvg with Adagrad on the server.

    Args:
        eta: Learning rate η > 0 of the parties.
        eta_server: Learning rate η_s > 0 of the server.
        beta1: β₁ in [0, 1), the share of the last average of the updates.
        tau: τ > 0, which bounds the step where updates are small.

    Returns:
        The method.

    Raises:
        SettingError: A setting is out of its range.

    Paper: Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2.

    >>> fedadagrad(eta=0.1).server_optimizer
    AdaptiveServer(rule='adagrad', eta=0.1, beta1=0.0, beta2=0.99, tau=0.001)
    """
    server = AdaptiveServer("adagrad", eta_server, beta1, tau=tau)
    return fedavg(eta=eta).replace(server_optimizer=server)
