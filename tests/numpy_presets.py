"""The methods of Table 1 in plain NumPy, written from the papers, with loops over parties."""

import numpy as np

N, D, B, E, ROUNDS = 7, 5, 4, 5, 6
ETA, SIGMA, DELTA = 0.1, 0.5, 0.3
KAPPA = 1 / (1 + ETA * SIGMA)  # 0.952
HEAD, BODY, NORM = [0, 3], [1, 2], [4]
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
        v, gradients = personal(w[k] - w_global), []
        w[k] = (1 - r.lam) * w[k] + r.lam * w_global
        for batch in r.batches[k]:
            gradients.append(r.gradient(w[k], *batch))
            w[k] = w[k] + r.move(np.array(gradients))
            w[k] = KAPPA * w[k] + (1 - KAPPA) * (w_global + v)


def plain(g):
    """Return the update of SGD from this round's gradients so far."""
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
