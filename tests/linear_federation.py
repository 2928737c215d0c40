"""A small federation of linear regressions, run by Flower in process and by the simulator."""

import numpy as np
from flwr.clientapp import ClientApp

import fedplus as fp
from fedplus.flower import InProcessGrid, Party

PARTIES, FEATURES, STEPS = 5, 3, 4


def samples(seed=0):
    """Return (x, y) of each party; the labels of the last party have the opposite sign."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=FEATURES)
    pairs = []
    for k in range(PARTIES):
        x = rng.normal(size=(20, FEATURES)).astype(np.float32)
        y = (x @ truth).astype(np.float32) + 0.1 * rng.normal(size=20).astype(np.float32)
        pairs.append((x, -y if k == PARTIES - 1 else y))
    return pairs


def zeros():
    return {"bias": np.zeros(1, np.float32), "weight": np.zeros((1, FEATURES), np.float32)}


def gradient_step(w, x, y, eta):
    """Return the model after a gradient step on half the squared error, over all samples."""
    error = x @ w["weight"].T + w["bias"] - y[:, None]
    return {
        "bias": w["bias"] - eta * error.mean(0),
        "weight": w["weight"] - eta * (error.T @ x) / len(x),
    }


def make_app(method, folder, data=None, steps=STEPS, corrupt=None):
    """Return a ``ClientApp`` with full-batch steps; ``corrupt`` changes a party's model."""
    data = samples() if data is None else data
    app = ClientApp()

    @app.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        party = Party(message, context, folder / f"party-{k}")
        w, (x, y) = party.start, data[k]
        for _ in range(steps):
            w = party.pull(gradient_step(w, x, y, method.local.eta))
        if corrupt is not None:
            w = corrupt(k, party, w)
        return party.reply(w, {"num-examples": len(x)})

    return app


def make_grid(method, folder, tamper=None, **options):
    """Return a grid of all parties; ``tamper`` changes their replies, ``options`` go to the app."""
    return InProcessGrid(make_app(method, folder, **options), PARTIES, tamper=tamper)


def simulate_federation(method, rounds, steps=STEPS):
    """Run the same federation with ``fedplus.simulate``; a minibatch is all samples."""
    pairs = samples()
    federation = fp.Federation.from_arrays(pairs, pairs)
    return fp.simulate(
        method, federation, fp.models.linear(FEATURES), rounds=rounds, steps=steps, batch_size=20
    )


class FixedTarget:
    """A pull target with a given κ and anchor, in place of a party."""

    def __init__(self, kappa, anchor):
        self.kappa, self.anchor = kappa, anchor


def half_arrays(arrays):
    """Return arrays of the same names and shapes, filled with 0.5."""
    return {name: np.full(np.shape(a), 0.5, np.float32) for name, a in arrays.items()}
