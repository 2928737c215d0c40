"""Every preset equals plain NumPy code, which is written from the method's paper.

The references loop over parties and know only the steps that a party does; the library gets batches
padded with NaN, so that one step too many would show.
"""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedplus as fp
from fedplus import presets
from fedplus.schedules import Cosine, Linear, at_round
from numpy_presets import (
    BETA,
    BETAS,
    DELTA,
    ETA,
    ETA_SERVER,
    HEAD,
    HEAD_STEPS,
    LAYOUT,
    RATE,
    RELAXATION,
    REST,
    ROUNDS,
    SIGMA,
    TAU,
    B,
    D,
    E,
    N,
    adam,
    adaptive_server,
    by_layer,
    coordinate_median,
    fed_plus,
    fedavg,
    fedavg_decay,
    fedbabu,
    fedper,
    fedprox,
    fedrep,
    geometric_median,
    lg_fedavg,
    local_fixed_point,
    local_sgd,
    mean,
    momentum,
    mr_mtl,
    plain,
    recursion,
    scaled,
    server_momentum,
    shrunk,
    thresholded,
)

pytestmark = pytest.mark.usefixtures("x64")

FAST_TO_COMPILE = {"xla_backend_optimization_level": 0}  # Compiling is most of this file's time.
run_round = jax.jit(fp.FedPlus.round, static_argnums=3, compiler_options=FAST_TO_COMPILE)


PARTS = {"head/*": fp.L2(DELTA), "body": fp.L1(DELTA), "*": fp.Quadratic(DELTA)}
FREE, PULLED = {"eta": ETA}, {"eta": ETA, "sigma": SIGMA}
TUNED, HYBRID = PULLED | {"delta": DELTA}, PULLED | {"parts": PARTS, "layout": LAYOUT}
ONE_MODEL = {  # preset: its settings, what its parties do, how their models are aggregated
    "fedavg": (FREE, fedavg, mean),
    "rfa": (FREE, fedavg, geometric_median),
    "coordinate_median": (FREE, fedavg, coordinate_median),
    "fedprox": (PULLED, fedprox, mean),
}
PERSONAL = {
    "fedavg_plus": (TUNED, partial(fed_plus, scaled), mean),
    "fedgeomed_plus": (TUNED, partial(fed_plus, shrunk), partial(recursion, shrunk)),
    "fedcomed_plus": (TUNED, partial(fed_plus, thresholded), partial(recursion, thresholded)),
    "hybrid": (HYBRID, partial(fed_plus, by_layer), partial(recursion, by_layer)),
}
TABLE_1 = {"local_sgd": (FREE, local_sgd, mean)} | ONE_MODEL | PERSONAL
SPLIT, HEADS = FREE | {"layout": LAYOUT}, {"head_steps": HEAD_STEPS}
ADAPTIVE = FREE | {"eta_server": ETA_SERVER, "beta1": BETAS[0], "tau": TAU}
MOMENTUM = FREE | {"eta_server": ETA_SERVER, "beta": BETA}
ROBUST = {"aggregate": fp.GeometricMedian()}
OTHERS = {
    "fedper": (SPLIT, fedper, mean),
    "lg_fedavg": (SPLIT, lg_fedavg, mean),
    "fedrep": (SPLIT | HEADS, fedrep, mean),
    "br_mtrl": (SPLIT | HEADS | ROBUST, fedrep, geometric_median),
    "fedbabu": (SPLIT, fedbabu, mean),
    "fedavg_ft": (FREE, fedavg, mean),
    "mr_mtl": (FREE | {"lam": SIGMA}, mr_mtl, mean),
    "fedavg_decay": (FREE | {"rate": RATE}, fedavg_decay, mean),
    "local_fixed_point": (FREE | {"relaxation": RELAXATION}, local_fixed_point, mean),
    "fedavgm": (MOMENTUM, fedavg, mean),
    "fedadam": (ADAPTIVE | {"beta2": BETAS[1]}, fedavg, mean),
    "fedyogi": (ADAPTIVE | {"beta2": BETAS[1]}, fedavg, mean),
    "fedadagrad": (ADAPTIVE, fedavg, mean),
}
ALL = TABLE_1 | OTHERS
FUNCTIONS = {"br_mtrl": "fedrep"}  # The presets with another name than in ``ALL``.
SHARED = dict.fromkeys(["fedper", "fedrep", "br_mtrl", "fedbabu"], REST) | {"lg_fedavg": HEAD}
SERVERS = {
    "fedavgm": server_momentum,
    "fedadam": partial(adaptive_server, "adam"),
    "fedyogi": partial(adaptive_server, "yogi"),
    "fedadagrad": partial(adaptive_server, "adagrad"),
}
START = np.linspace(-0.5, 0.5, D)
every_row = pytest.mark.parametrize("name", TABLE_1)
every_preset = pytest.mark.parametrize("name", ALL)


def preset(name, **settings):
    make = getattr(fp.presets, FUNCTIONS.get(name, name))
    return make(**ALL[name][0]).replace(**settings)


def assert_close(name, got, expected):
    """Require equality up to rounding, and for geometric medians up to their accuracy."""
    atol = {"rfa": 1e-4, "br_mtrl": 1e-4, "fedgeomed_plus": 1e-5, "hybrid": 1e-5}.get(name, 1e-11)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=0, atol=atol), got, expected)


@jax.grad
def squares(w, batch):
    return 0.5 * jnp.mean((batch[0] @ w - batch[1]) ** 2)


@jax.grad
def logistic(w, batch):
    return jnp.mean(jnp.logaddexp(0, -jnp.sign(batch[1]) * (batch[0] @ w)))


GRADIENT = {
    squares: lambda w, x, y: x.T @ (x @ w - y) / B,
    logistic: lambda w, x, y: -x.T @ (np.sign(y) / (1 + np.exp(np.sign(y) * (x @ w)))) / B,
}


def draw(active, grad, *, weighted=False, **more):
    """Yield the work of each round, for the library and for the reference. Party 0 is an outlier."""
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(N, D)) + 5 * np.eye(N)[:, :1]
    weights = rng.uniform(0.5, 2.0, N) if weighted else None
    for _ in range(ROUNDS):
        cohort, steps = rng.permutation(N)[:active], rng.integers(0, E + 1, active)
        x = rng.normal(size=(active, E, B, D))
        y = np.einsum("kebd,kd->keb", x, truth[cohort]) + 0.1 * rng.normal(size=x.shape[:3])
        x[np.arange(E) >= steps[:, None]] = np.nan
        done = [list(zip(x[i, :e], y[i, :e], strict=True)) for i, e in enumerate(steps)]
        batches = dict(zip(cohort, done, strict=True))
        work = jax.tree.map(jnp.asarray, fp.Work(cohort, (x, y), steps, weights))
        yield work, SimpleNamespace(cohort=cohort, batches=batches, gradient=GRADIENT[grad], **more)


def assert_equals_reference(
    name, algorithm, active, grad, *, weighted=False, lam=0, move=plain, past=None
):
    """Compare every round; the reference keeps the gradients of each party in ``past``, if it is given.

    A party's first round starts at the current global model, and it counts from then on. With
    join="first" it does so from the first round on.
    """
    _, train, aggregate = ALL[name]
    shared, server, memory = SHARED.get(name, range(D)), SERVERS.get(name), {}
    shared = list(shared)
    w_global = START.copy()
    w, state = [w_global] * N, algorithm.init(jnp.asarray(START), N)
    joined = set(range(N)) if algorithm.join == "first" else set()
    rounds = draw(active, grad, weighted=weighted, lam=lam, move=move, past=past)
    for t, (work, r) in enumerate(rounds):
        r.t = t
        for k in set(r.cohort) - joined:
            w[k] = w_global
        joined |= set(r.cohort)
        train(w, w_global, r)
        counted = sorted(joined) if algorithm.over == "all" else r.cohort
        a = np.ones(N) if work.weights is None else np.asarray(work.weights)
        target = aggregate([w[k][shared] for k in counted], a[counted])
        w_global = w_global.copy()
        w_global[shared] = target if server is None else server(w_global[shared], target, memory)
        state, result = run_round(at_round(algorithm, t), state, work, grad)
        assert_close(name, (state.w_global, state.w_local), (w_global, np.array(w)))
        if not isinstance(state.joined, tuple):
            assert set(np.flatnonzero(state.joined)) == joined
        assert result.aggregate.converged


@every_preset
@pytest.mark.parametrize("active", [N, 4])
def test_a_preset_equals_the_method_that_it_names(name, active):
    """Every round is compared, with different E_k; if all parties are active, with weights."""
    grad = logistic if active == N else squares
    assert_equals_reference(name, preset(name), active, grad, weighted=active == N)


@pytest.mark.parametrize("name", ["local_sgd", *PERSONAL, "mr_mtl"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_personal_preset_may_count_all_parties_from_the_first_round_on(name, weighted):
    """With join="first" and over="all", this is Algorithm 1 as printed (Deviation D18)."""
    algorithm = preset(name, join="first", over="all")
    assert_equals_reference(name, algorithm, 3, squares, weighted=weighted)


@every_row
@pytest.mark.parametrize("weighted", [False, True])
def test_a_preset_may_aggregate_all_or_only_active_parties(name, weighted):
    """Here ``over`` has the value that the preset does not use (Deviation D1)."""
    algorithm = preset(name)
    over = {"all": "active", "active": "all"}[algorithm.over]
    active = 3 if over == "all" else 4  # Many parties are inactive, and medians are intervals.
    algorithm = algorithm.replace(over=over)
    assert_equals_reference(name, algorithm, active, squares, weighted=weighted)


@pytest.mark.parametrize("name", PERSONAL)
def test_a_personal_preset_may_start_at_a_mixture(name):
    """This is Alg. 1, l. 12 with λ = 0.001, as in the paper for Sent140."""
    assert_equals_reference(name, preset(name, lam=0.001), 4, squares, lam=0.001)


OPTIMIZERS = {
    "momentum": ("momentum", momentum),
    "adam": ("adam", adam),
    "function": (lambda rate: optax.sgd(rate, momentum=0.9), momentum),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_optimizer_replaces_the_gradient_step(optimizer):
    """Its state is initialised in every round, and the move towards the anchor stays the same."""
    optimizer, move = OPTIMIZERS[optimizer]
    algorithm = preset("fedavg_plus", optimizer=optimizer)
    assert_equals_reference("fedavg_plus", algorithm, 4, squares, move=move)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("active", [N, 3])
def test_a_party_may_keep_its_optimizer_state(optimizer, active):
    """It equals a loop that never resets the optimizer, also if the party skips rounds."""
    optimizer, move = OPTIMIZERS[optimizer]
    algorithm = preset("fedavg_plus", optimizer=optimizer, keep_optimizer_state=True)
    assert_equals_reference("fedavg_plus", algorithm, active, squares, move=move, past={})
    with pytest.raises(AssertionError):  # It differs from the optimizer that is reset.
        assert_equals_reference("fedavg_plus", algorithm, active, squares, move=move)


def test_a_kept_optax_schedule_counts_the_steps_of_each_party():
    """With E_k steps per round, the learning rate of step i of party k depends on all its steps."""

    def decaying(g):
        return -ETA * 0.9 ** (len(g) - 1) * g[-1]

    def optimizer(rate):  # optax.exponential_decay computes in float32.
        return optax.sgd(lambda count: rate * 0.9 ** jnp.asarray(count, float))

    algorithm = preset("fedavg_plus", optimizer=optimizer, keep_optimizer_state=True)
    assert_equals_reference("fedavg_plus", algorithm, 3, squares, move=decaying, past={})
    batches = jnp.ones((N, 2, B, D)), jnp.ones((N, 2, B))  # It may be fine-tuned, too.
    models = jnp.zeros((N, D))
    adapted = algorithm.replace(fine_tune=2).adapt(models, batches, squares)
    first = -ETA * GRADIENT[squares](np.zeros(D), np.ones((B, D)), np.ones(B))
    second = first - 0.9 * ETA * GRADIENT[squares](first, np.ones((B, D)), np.ones(B))
    np.testing.assert_allclose(adapted, np.tile(second, (N, 1)), rtol=1e-6)


@pytest.mark.parametrize("name", ["fedbabu", "fedavg_ft", "fedavg_plus"])
def test_fine_tuning_takes_gradient_steps_on_the_whole_model_without_a_pull(name):
    algorithm = preset(name, fine_tune=3)
    state, _ = state_after_some_rounds(algorithm)
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(N, 3, B, D)), rng.normal(size=(N, 3, B))
    models = algorithm.models(state)
    adapted = algorithm.adapt(models, (jnp.asarray(x), jnp.asarray(y)), squares)
    assert algorithm.adaptation_steps == 3
    for k, w in enumerate(np.asarray(models)):
        for i in range(3):
            w = w - ETA * GRADIENT[squares](w, x[k, i], y[k, i])
        np.testing.assert_allclose(adapted[k], w, rtol=1e-12)
    if name == "fedbabu":  # It begins at the global body and the first head.
        first = np.zeros((N, len(HEAD)))
        np.testing.assert_array_equal(np.asarray(models)[:, HEAD], first)
        np.testing.assert_array_equal(models, np.tile(state.w_global, (N, 1)))


ROBUST_AGGREGATORS = {
    "trimmed mean": fp.TrimmedMean(0.2), "Krum": fp.Krum(1), "coordinate median": fp.CoordinateMedian(),
}  # fmt: skip


@every_preset
@pytest.mark.parametrize("robust", ROBUST_AGGREGATORS)
def test_every_preset_takes_every_robust_aggregator(name, robust):
    """w̃ is the aggregate of the shared layers, or moves towards it, and differs from the mean's."""
    aggregate = ROBUST_AGGREGATORS[robust]
    work, _ = next(draw(N, squares))
    results = []
    for chosen in (aggregate, fp.Mean()):
        method = at_round(preset(name, aggregate=chosen), 0)
        state, outcome = method.round(method.init(jnp.asarray(START), N), work, squares)
        columns = SHARED.get(name, slice(None))
        results.append(np.asarray(state.w_global)[columns])
        expected = chosen(np.asarray(outcome.solved)[:, columns]).w
        np.testing.assert_allclose(outcome.aggregate.w, expected, rtol=1e-10)
        if name not in SERVERS:
            np.testing.assert_array_equal(results[-1], outcome.aggregate.w)
    assert np.abs(results[0] - results[1]).max() > 1e-4


FINE_TUNED = {
    "mr_mtl": lambda: presets.mr_mtl(eta=ETA, lam=0.9 / ETA),
    "local_fixed_point": lambda: presets.local_fixed_point(eta=ETA, relaxation=0.1),
    "fedavg": lambda: presets.fedavg(eta=Cosine(ETA, 0.0, rounds=2)),
    "fedper": lambda: presets.fedper(LAYOUT, eta=Cosine(ETA, 0.0, rounds=2)),
    "given": lambda: presets.fedavg(eta=10.0).replace(fine_tune_eta=ETA),
    "given by a schedule": lambda: presets.fedavg(eta=1.0).replace(
        fine_tune_eta=Cosine(ETA, 0.0, rounds=2)
    ),
}


@pytest.mark.filterwarnings("ignore::fedplus.KappaWarning")
@pytest.mark.parametrize("name", FINE_TUNED)
def test_fine_tuning_takes_the_users_learning_rate_of_the_first_round(name):
    """It is not the one by which MR-MTL is a row of Table 1, nor one that has decayed to 0."""
    algorithm = FINE_TUNED[name]().replace(fine_tune=1).after_training(5)
    batches = jnp.ones((N, 1, B, D)), jnp.ones((N, 1, B))
    adapted = algorithm.adapt(jnp.zeros((N, D)), batches, squares)
    step = -ETA * GRADIENT[squares](np.zeros(D), np.ones((B, D)), np.ones(B))
    np.testing.assert_allclose(adapted, np.tile(step, (N, 1)), rtol=1e-10)


def test_fine_tuning_without_a_learning_rate_is_rejected():
    warm_up = Linear(0.0, ETA, rounds=5)
    with pytest.raises(
        fp.SettingError, match=r"fine-tuning must be > 0, got 0.*fine_tune_eta=0\.1"
    ):
        presets.fedavg_ft(eta=warm_up)
    assert presets.fedavg(eta=warm_up).replace(fine_tune=3, fine_tune_eta=ETA).fine_tune == 3
    with pytest.raises(fp.SettingError, match=r"FedPlus\.fine_tune_eta must be .* > 0, got 0"):
        presets.fedavg_ft(eta=ETA).replace(fine_tune_eta=0.0)


def state_after_some_rounds(algorithm):
    """Return a state after some rounds, and the work of the next round."""
    state = algorithm.init(jnp.zeros(D), N)
    *past, (work, _) = draw(4, squares)
    for t, (past_work, _) in enumerate(past):
        state, _ = run_round(at_round(algorithm, t), state, past_work, squares)
    return state, work


@every_preset
def test_all_parties_start_with_the_global_model(name):
    """This is Alg. 1, l. 1."""
    start = np.arange(float(D))
    state = preset(name).init(start, N)
    np.testing.assert_array_equal(state.w_global, start)
    np.testing.assert_array_equal(state.w_local, [start] * N)
    assert not np.any(state.joined)


@every_preset
def test_inactive_parties_keep_their_models(name):
    """Alg. 1, l. 8-9: they are the same bit by bit, while parties that take a step change."""
    algorithm = preset(name)
    state, work = state_after_some_rounds(algorithm)
    after, _ = run_round(at_round(algorithm, ROUNDS - 1), state, work, squares)
    same = np.all(after.w_local == state.w_local, axis=1)
    assert not same[work.cohort[work.steps > 0]].any()
    assert np.delete(same, work.cohort).all()


@every_row
def test_the_evaluated_models_are_those_that_parties_use(name):
    """Deviation D7: they are w̃ for λ = 1, and the personal w_k for λ < 1."""
    algorithm = preset(name)
    state, _ = state_after_some_rounds(algorithm)
    assert np.all(state.joined)
    expected = [state.w_global] * N if name in ONE_MODEL else state.w_local
    np.testing.assert_array_equal(algorithm.models(state), expected)
    np.testing.assert_array_equal(preset(name, lam=0.999).models(state), state.w_local)


def test_a_party_that_never_took_part_uses_the_global_model():
    """It has no personal part, whether the state says so for all parties or for some."""
    algorithm = preset("fedgeomed_plus")
    state, rounds = algorithm.init(jnp.asarray(START), N), list(draw(2, squares))
    for work, _ in rounds[:2]:
        state, _ = run_round(algorithm, state, work, squares)
    new = np.flatnonzero(~state.joined)
    assert 0 < len(new) < N
    np.testing.assert_array_equal(algorithm.models(state)[new], [state.w_global] * len(new))
    np.testing.assert_array_equal(algorithm.models(state, new), [state.w_global] * len(new))
    assert not np.asarray(algorithm.personal_parts(state, new)).any()
    old = np.flatnonzero(state.joined)
    np.testing.assert_array_equal(algorithm.models(state)[old], state.w_local[old])


@pytest.mark.parametrize("name", ["fedprox", "fedgeomed_plus", "fedrep", "fedadam"])
def test_a_compiled_round_equals_an_eager_one(name):
    """The state and the convergence of the aggregation are the same."""
    algorithm = preset(name)
    state, work = state_after_some_rounds(algorithm)
    compiled, eager = (
        run(algorithm, state, work, squares) for run in (run_round, fp.FedPlus.round)
    )
    assert_close(name, compiled[0], eager[0])
    assert compiled[1].aggregate.converged == eager[1].aggregate.converged


@pytest.mark.parametrize("name", ["fedgeomed_plus", "fedcomed_plus"])
def test_several_settings_at_once_equal_each_by_itself(name):
    """A round is mapped by vmap over stacked algorithms with different σ and δ."""
    make, values = getattr(fp.presets, name), ((0.2, 0.1), (0.5, 0.3), (1.0, 2.0))
    each = [make(eta=ETA, sigma=sigma, delta=delta) for sigma, delta in values]
    state, work = state_after_some_rounds(each[0])
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
    together, _ = jax.vmap(lambda method: run_round(method, state, work, squares))(stacked)
    for i, algorithm in enumerate(each):
        alone, _ = run_round(algorithm, state, work, squares)
        assert_close(name, jax.tree.map(lambda leaf, i=i: leaf[i], together), alone)


@pytest.mark.parametrize(("eta", "sigma"), [(0.02, 15), (0.01, 0.01), (0.1, 1.2), (0.1, 0.009)])
def test_a_kappa_outside_the_recommended_range_warns_once(eta, sigma):
    """Deviation D8: κ outside [0.9, 0.999] gives a warning with its value, and no error."""
    with pytest.warns(fp.KappaWarning, match=f"{1 / (1 + eta * sigma):.6g}") as caught:
        assert fp.presets.fedavg_plus(eta=eta, sigma=sigma).local.sigma == sigma
    assert len(caught) == 1


@pytest.mark.parametrize(("eta", "sigma"), [(0.1, 1.1), (0.1, 0.011), (0.02, 1.0), (100.0, 0.0)])
def test_a_recommended_kappa_or_sigma_zero_does_not_warn(eta, sigma):
    """Pytest turns a warning into an error."""
    fp.presets.fedprox(eta=eta, sigma=sigma)


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        ("cohort", np.arange(N + 1)),  # more than there are
        ("cohort", np.arange(0)),
        ("cohort", np.array([0, 1, 2, 2])),
        ("cohort", np.array([0, 1, 2, N])),
        ("cohort", np.array([0, 1, 2, -1])),
        ("cohort", np.array([[0, 1, 2, 3]])),
        ("steps", np.array([1, 1, 1, E + 1])),
        ("steps", np.array([1, 1, 1, -1])),
        ("steps", np.array([1, 1, 1])),
        ("batches", (np.ones((3, E, B, D)), np.ones((3, E, B)))),
        ("batches", (np.ones((4, E, B, D)), np.ones(4))),
        ("batches", (np.ones((4, E, B, D)), np.ones((4, E + 1, B)))),  # E differs
        ("weights", np.ones(4)),  # the cohort's
        ("weights", np.ones((N, 1))),
    ],
)
def test_bad_work_is_reported_in_one_line(setting, wrong):
    """The SettingError names the setting, what is allowed and what was got."""
    algorithm = preset("fedavg_plus")
    state, work = state_after_some_rounds(algorithm)
    with pytest.raises(fp.SettingError, match=rf"\Awork\.{setting} must be .+, got .+\Z"):
        algorithm.round(state, work._replace(**{setting: wrong}), squares)


@pytest.mark.parametrize("setting", ["cohort", "steps"])
def test_bad_work_of_many_parties_is_reported_in_one_line(setting):
    """The message shortens long vectors."""
    algorithm, many = preset("fedavg_plus"), 60
    batches = np.ones((many, 1, B, D)), np.ones((many, 1, B))
    work = fp.Work(np.arange(many), batches, np.ones(many, int))
    wrong = work._replace(**{setting: np.full(many, 7)})
    with pytest.raises(fp.SettingError, match=rf"\Awork\.{setting} must be .+, got .+\Z"):
        algorithm.round(algorithm.init(np.zeros(D), many), wrong, squares)
