"""Every baseline in plain NumPy, from its paper's pseudo-code: loops over parties and steps.

Each function runs one round and updates the state ``m`` in place; ``a`` is the library's method, with
the settings. ``heads`` and ``sent`` are random draws, which both implementations must share.
"""

import numpy as np
from least_squares import plain_grad as grad
from least_squares import plain_loss as f


def begin(w0):
    """Return the state before the first round."""
    return {"w": w0.copy()}


def party_batches(batches, k):
    """Return the minibatches of the k-th active party."""
    xs, ys = batches
    return [(xs[k, i], ys[k, i]) for i in range(xs.shape[1])]


def scaffold(m, a, cohort, batches, steps, n):
    if "c" not in m:
        m.update(c=np.zeros_like(m["w"]), ck=np.zeros((n, m["w"].size)))
    x, c = m["w"], m["c"]
    dy, dc = [], []
    for j, k in enumerate(cohort):
        mine = party_batches(batches, j)[: steps[j]]
        y, ck = x.copy(), m["ck"][k].copy()
        for batch in mine:
            y = y - a.eta_l * (grad(y, batch) - ck + c)
        if a.option == 1:
            plus = np.mean([grad(x, batch) for batch in mine], axis=0)
        else:
            plus = ck - c + (x - y) / (len(mine) * a.eta_l)
        dy.append(y - x)
        dc.append(plus - ck)
        m["ck"][k] = plus
    m["w"] = x + a.eta_g * np.mean(dy, axis=0)
    m["c"] = c + len(cohort) / n * np.mean(dc, axis=0)
    m["models"] = np.tile(m["w"], (n, 1))


def pfedme(m, a, cohort, batches, steps, n):
    m.setdefault("models", np.tile(m["w"], (n, 1)))
    solved = []
    for j, k in enumerate(cohort):
        w = theta = m["w"].copy()
        for batch in party_batches(batches, j)[: steps[j]]:
            for _ in range(a.inner):
                theta = theta - a.eta_inner * (grad(theta, batch) + a.lam * (theta - w))
            w = w - a.eta * a.lam * (w - theta)
        m["models"][k] = theta
        solved.append(w)
    m["w"] = (1 - a.beta) * m["w"] + a.beta * np.mean(solved, axis=0)


def perfedavg(m, a, cohort, batches, steps, n):
    solved = []
    for j, _ in enumerate(cohort):
        every = party_batches(batches, j)
        w = m["w"].copy()
        for i in range(steps[j]):
            d0, d1, d2 = (every[(3 * i + s) % len(every)] for s in range(3))
            tilde = w - a.alpha * grad(w, d0)
            outer = grad(tilde, d1)
            if a.variant == "hf":
                x, _ = d2
                hessian = x.T @ x / len(x)  # Differences of a quadratic's gradients are exact.
                outer = outer - a.alpha * hessian @ outer
            w = w - a.beta * outer
        solved.append(w)
    m["w"] = np.mean(solved, axis=0)
    m["models"] = np.tile(m["w"], (n, 1))


def apfl(m, a, cohort, batches, steps, n):
    if "v" not in m:
        m.update(v=np.tile(m["w"], (n, 1)), alpha=np.full(n, a.alpha))
    solved = []
    for j, k in enumerate(cohort):
        w, v, alpha = m["w"].copy(), m["v"][k].copy(), m["alpha"][k]
        for i, batch in enumerate(party_batches(batches, j)[: steps[j]]):
            mixed = alpha * v + (1 - alpha) * w
            g = grad(mixed, batch)
            moved = np.clip(alpha - a.eta * (v - w) @ g, 0, 1)
            w, v = w - a.eta * grad(w, batch), v - a.eta * alpha * g
            if a.adaptive and i == 0:
                alpha = moved
        m["v"][k], m["alpha"][k] = v, alpha
        solved.append(w)
    m["w"] = np.mean(solved, axis=0)
    m["models"] = m["alpha"][:, None] * m["v"] + (1 - m["alpha"][:, None]) * m["w"]


def ditto(m, a, cohort, batches, steps, n):
    m.setdefault("models", np.tile(m["w"], (n, 1)))
    solved = []
    for j, k in enumerate(cohort):
        w, v = m["w"].copy(), m["models"][k].copy()
        for batch in party_batches(batches, j)[: steps[j]]:
            w = w - a.eta * grad(w, batch)
            v = v - a.eta * (grad(v, batch) + a.lam * (v - m["w"]))
        m["models"][k] = v
        solved.append(w)
    robust = a.aggregate is not None
    m["w"] = np.median(solved, axis=0) if robust else np.mean(solved, axis=0)


def l2gd(m, a, cohort, batches, steps, n, heads):
    m.setdefault("models", np.tile(m["w"], (n, 1)))
    k_active = len(cohort)
    x = m["models"][cohort]
    for i in range(max(steps)):
        if heads(i):
            moved = x - a.alpha * a.lam / (k_active * a.p) * (x - x.mean(0))
            x = np.where((i < np.asarray(steps))[:, None], moved, x)
        else:
            for j in range(k_active):
                if i < steps[j]:
                    g = grad(x[j], party_batches(batches, j)[i])
                    x[j] = x[j] - a.alpha / (k_active * (1 - a.p)) * g
    m["models"][cohort] = x
    m["w"] = x.mean(0)


def hypcluster(m, a, cohort, batches, steps, n):
    m.setdefault("choice", np.zeros(n, int))
    groups = {c: [] for c in range(a.q)}
    for j, k in enumerate(cohort):
        mine = party_batches(batches, j)[: steps[j]]
        c = int(np.argmin([np.mean([f(h, b) for b in mine]) for h in m["centres"]]))
        w = m["centres"][c].copy()
        for batch in mine:
            w = w - a.eta * grad(w, batch)
        groups[c].append(w)
        m["choice"][k] = c
    for c, solved in groups.items():
        if solved:
            m["centres"][c] = np.mean(solved, axis=0)
    m["models"] = m["centres"][m["choice"]]


def mapper(m, a, cohort, batches, steps, n):
    if "wl" not in m:
        m.update(wl=np.tile(m["w"], (n, 1)), lam=np.full(n, a.lambdas[0]))
    solved = []
    for j, k in enumerate(cohort):
        mine = party_batches(batches, j)[: steps[j]]
        tried = []
        for lam in a.lambdas:
            wl = m["wl"][k].copy()
            for batch in mine:
                wl = wl - a.eta * lam * grad(lam * wl + (1 - lam) * m["w"], batch)
            mixed = lam * wl + (1 - lam) * m["w"]
            tried.append((np.mean([f(mixed, b) for b in mine]), lam, wl, mixed))
        _, lam, wl, mixed = min(tried, key=lambda candidate: candidate[0])
        g = np.mean([grad(mixed, b) for b in mine], axis=0)
        solved.append(m["w"] - a.eta_c * (1 - lam) * g)
        m["wl"][k], m["lam"][k] = wl, lam
    m["w"] = np.mean(solved, axis=0)
    m["models"] = m["lam"][:, None] * m["wl"] + (1 - m["lam"][:, None]) * m["w"]


def fedfomo(m, a, cohort, batches, steps, n, sent, held):
    m.setdefault("models", np.tile(m["w"], (n, 1)))
    before = m["models"].copy()
    for j, k in enumerate(cohort):
        own, check = before[k], (held[0][j], held[1][j])
        weights = {}
        for other in sent[j]:
            apart = np.linalg.norm(before[other] - own)
            if apart > 0:
                weights[other] = max((f(own, check) - f(before[other], check)) / apart, 0)
        total = sum(weights.values())
        w = own.copy()
        if total > 0:
            w = w + sum(v / total * (before[o] - own) for o, v in weights.items())
        for batch in party_batches(batches, j)[: steps[j]]:
            w = w - a.eta * grad(w, batch)
        m["models"][k] = w


def fedsplit(m, a, cohort, batches, steps, n):
    m.setdefault("z", np.tile(m["w"], (n, 1)))
    for j, k in enumerate(cohort):
        x, z = m["w"], m["z"][k]
        u = x.copy()
        for batch in party_batches(batches, j)[: steps[j]]:
            u = u - a.eta * (grad(u, batch) + (u - (2 * x - z)) / a.s)
        m["z"][k] = z + 2 * (u - x)
    m["w"] = m["z"].mean(0)
    m["models"] = np.tile(m["w"], (n, 1))


def localupdate(m, a, cohort, batches, steps, n):
    x, sent = m["w"], []
    for j, _ in enumerate(cohort):
        y, gradients = x.copy(), []
        for batch in party_batches(batches, j)[: steps[j]]:
            gradients.append(grad(y, batch))
            y = y - a.gamma * gradients[-1]
        theta = {"all": np.ones(steps[j]), "last": np.eye(steps[j])[-1]}[a.theta]
        sent.append(theta @ np.array(gradients))
    m["w"] = x - a.eta * np.mean(sent, axis=0)
    m["models"] = np.tile(m["w"], (n, 1))
