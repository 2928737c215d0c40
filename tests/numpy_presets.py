"""The presets in plain NumPy, written from their papers, with loops over parties."""

import numpy as np

N, D, B, E, ROUNDS = 7, 5, 4, 5, 6
ETA, SIGMA, DELTA = 0.1, 0.5, 0.3
KAPPA = 1 / (1 + ETA * SIGMA)  # 0.952
HEAD, BODY, NORM = [0, 3], [1, 2], [4]
REST = BODY + NORM
HEAD_STEPS, RATE, RELAXATION, BETA, ETA_SERVER = 2, 0.5, 0.7, 0.8, 0.3
BETAS, TAU = (0.9, 0.8), 0.01
LAYOUT = (("head/b", 1), ("body", 2), ("head/w", 1), ("norm", 1))


def mean(models, a):
    """Return the mean of the models with weights a."""
    return sum(a_k * w_k for a_k, w_k in zip(a, models, strict=True)) / sum(a)


def geometric_median(models, a):
    """Return argmin Σ a_k‖w_k − w‖, by Kuhn's condition at a model or by Weiszfeld's iteration."""
    models = np.array(models)
    for w in models:
        r = np.linalg.norm(models - w, axis=1)
        far = r > 0
        if np.linalg.norm((a[far] / r[far]) @ (models[far] - w)) <= a[~far].sum():
            return w
    w = mean(models, a)
    for _ in range(3_000):
        w = mean(models, a / np.linalg.norm(models - w, axis=1))
    return w


def coordinate_median(models, a):
    """Return argmin Σ a_k|w_k − w| in each coordinate, or the midpoint of all minimisers."""
    models = np.array(models)
    costs = np.array([a @ abs(models - w) for w in models])
    best = np.where(costs <= costs.min(axis=0) + 1e-12, models, np.nan)
    return (np.nanmin(best, axis=0) + np.nanmax(best, axis=0)) / 2


def recursion(personal, models, a):
    """Return the limit of the paper's two-step recursion, which starts at the mean."""
    w_mean = w = mean(models, a)
    for _ in range(50_000):
        last, v = w, [personal(w_k - w) for w_k in models]
        w = w_mean - mean(v, a)
        if np.linalg.norm(w - last) <= 1e-14:
            return w
    raise AssertionError("the paper's recursion did not converge: take a larger δ")


def scaled(x):
    """Return the personal part v_k for x = w_k − w̃ in FedAvg+."""
    return x / (1 + DELTA)


def shrunk(x):
    """Return the personal part v_k in FedGeoMed+."""
    length = np.linalg.norm(x)
    return max(0.0, 1 - DELTA / length) * x if length > 0 else x


def thresholded(x):
    """Return the personal part v_k in FedCoMed+, on both sides of 0 (Deviation D3)."""
    return np.array([np.sign(c) * max(abs(c) - DELTA, 0.0) for c in x])


def by_layer(x):
    """Return the personal part v_k in the hybrid, with another ψ for each group of layers."""
    v = np.empty(D)
    v[HEAD], v[BODY], v[NORM] = shrunk(x[HEAD]), thresholded(x[BODY]), scaled(x[NORM])
    return v


def local_sgd(w, w_global, r):
    """Train every active party by SGD from its own model; w has all parties' models."""
    for k in r.cohort:
        for batch in r.batches[k]:
            w[k] = w[k] - ETA * r.gradient(w[k], *batch)


def fedavg(w, w_global, r):
    """Train every active party by E_k steps of SGD from the global model."""
    for k in r.cohort:
        w[k] = w_global
    local_sgd(w, w_global, r)


def fedprox(w, w_global, r):
    """Descend f_k(w) + (μ/2)‖w − w̃‖² from w̃, with the stepsize ηκ of Proposition 1."""
    for k in r.cohort:
        w[k] = w_global
        for batch in r.batches[k]:
            w[k] = w[k] - ETA * KAPPA * (r.gradient(w[k], *batch) + SIGMA * (w[k] - w_global))


def fed_plus(personal, w, w_global, r):
    """Take gradient steps from the party's own model, each followed by a move towards w̃ + v_k."""
    for k in r.cohort:
        v = personal(w[k] - w_global)
        gradients = r.past.setdefault(k, []) if r.past is not None else []
        w[k] = (1 - r.lam) * w[k] + r.lam * w_global
        for batch in r.batches[k]:
            gradients.append(r.gradient(w[k], *batch))
            w[k] = w[k] + r.move(np.array(gradients))
            w[k] = KAPPA * w[k] + (1 - KAPPA) * (w_global + v)


def masked_sgd(w, k, r, columns_of_step):
    """Train party k by SGD, at step i in the columns ``columns_of_step(i)`` only."""
    for i, batch in enumerate(r.batches[k]):
        g, w[k] = r.gradient(w[k], *batch), w[k].copy()
        columns = columns_of_step(i)
        w[k][columns] -= ETA * g[columns]


def split_model(shared, columns_of_step, w, w_global, r):
    """Start the shared columns at the global model and the other ones at the party's own values."""
    for k in r.cohort:
        w[k] = w[k].copy()
        w[k][shared] = w_global[shared]
        masked_sgd(w, k, r, columns_of_step)


def fedper(w, w_global, r):
    """Train the base layers, which begin at the global ones, and the party's own head together."""
    split_model(REST, lambda i: HEAD + REST, w, w_global, r)


def lg_fedavg(w, w_global, r):
    """Train the party's own body and the head, which begins at the global one, together."""
    split_model(HEAD, lambda i: HEAD + REST, w, w_global, r)


def fedrep(w, w_global, r):
    """Train the party's own head, with the representation fixed, and then the representation."""
    split_model(REST, lambda i: HEAD if i < HEAD_STEPS else REST, w, w_global, r)


def fedbabu(w, w_global, r):
    """Train the body only; the head keeps its first values."""
    split_model(REST, lambda i: REST, w, w_global, r)


def mr_mtl(w, w_global, r):
    """Descend f_k(w) + (λ/2)‖w − w̃‖² from the party's own model."""
    for k in r.cohort:
        for batch in r.batches[k]:
            w[k] = w[k] - ETA * (r.gradient(w[k], *batch) + SIGMA * (w[k] - w_global))


def fedavg_decay(w, w_global, r):
    """Train every active party from the global model with the learning rate η/(1 + rate · t)."""
    for k in r.cohort:
        w[k] = w_global
        for batch in r.batches[k]:
            w[k] = w[k] - ETA / (1 + RATE * r.t) * r.gradient(w[k], *batch)


def local_fixed_point(w, w_global, r):
    """Take relaxed steps (1 − λ) w + λ T_k(w) from the global model, T_k(w) = w − η∇f_k(w)."""
    for k in r.cohort:
        w[k] = w_global
        for batch in r.batches[k]:
            image = w[k] - ETA * r.gradient(w[k], *batch)
            w[k] = (1 - RELAXATION) * w[k] + RELAXATION * image


def server_momentum(w, target, memory):
    """Return the next global model of FedAvgM."""
    memory["v"] = BETA * memory.get("v", 0) + (w - target)  # Hsu et al.: Δw points uphill.
    return w - ETA_SERVER * memory["v"]


def adaptive_server(rule, w, target, memory):
    """Return the next global model of FedAdam, FedYogi or FedAdagrad (Reddi et al., Algorithm 2)."""
    beta1, beta2 = BETAS
    delta = target - w
    memory["m"] = m = beta1 * memory.get("m", 0) + (1 - beta1) * delta
    v = memory.get("v", np.full(len(w), TAU**2))
    memory["v"] = v = {
        "adagrad": v + delta**2,
        "yogi": v - (1 - beta2) * delta**2 * np.sign(v - delta**2),
        "adam": beta2 * v + (1 - beta2) * delta**2,
    }[rule]
    return w + ETA_SERVER * m / (np.sqrt(v) + TAU)


def plain(g):
    """Return the update of SGD from the gradients so far."""
    return -ETA * g[-1]


def momentum(g):
    """Return the update of SGD with momentum."""
    return -ETA * 0.9 ** np.arange(len(g))[::-1] @ g


def adam(g):
    """Return the update of Adam."""

    def average(b, values):  # With bias correction, the weights b^i are normalised to sum 1.
        powers = b ** np.arange(len(values))[::-1]
        return powers @ values / powers.sum()

    return -ETA * average(0.9, g) / (np.sqrt(average(0.999, g**2)) + 1e-8)
