"""A small federation of linear regressions, its parties' code, and the same in the simulator."""

import numpy as np
from flwr.clientapp import ClientApp

import fedplus as fp
from fedplus.flower import InProcessGrid, Party

PARTIES, FEATURES, STEPS = 5, 3, 4


def samples(seed=0):
    """(x, y) of each party; the last one is unlike the rest."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=FEATURES)
    found = []
    for k in range(PARTIES):
        x = rng.normal(size=(20, FEATURES)).astype(np.float32)
        y = (x @ truth).astype(np.float32) + 0.1 * rng.normal(size=20).astype(np.float32)
        found.append((x, -y if k == PARTIES - 1 else y))
    return found


def zeros():
    return {"bias": np.zeros(1, np.float32), "weight": np.zeros((1, FEATURES), np.float32)}


def descended(w, x, y, eta):
    """A gradient step on half the squared error, over all samples."""
    error = x @ w["weight"].T + w["bias"] - y[:, None]
    return {
        "bias": w["bias"] - eta * error.mean(0),
        "weight": w["weight"] - eta * (error.T @ x) / len(x),
    }


def app_of(method, folder, data=None, steps=STEPS, spoil=None):
    """A ``ClientApp`` whose parties do full-batch steps; ``spoil`` changes a party's model."""
    data = samples() if data is None else data
    app = ClientApp()

    @app.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        party = Party(message, context, folder / f"party-{k}")
        w, (x, y) = party.start, data[k]
        for _ in range(steps):
            w = party.pull(descended(w, x, y, method.local.eta))
        if spoil is not None:
            w = spoil(k, party, w)
        return party.reply(w, {"num-examples": len(x)})

    return app


def grid_of(method, folder, **more):
    tamper = more.pop("tamper", None)
    return InProcessGrid(app_of(method, folder, **more), PARTIES, tamper=tamper)


def simulated(method, rounds, steps=STEPS):
    """The same by ``fedplus.simulate``: minibatches of all samples."""
    pairs = samples()
    federation = fp.Federation.from_arrays(pairs, pairs)
    return fp.simulate(
        method, federation, fp.models.linear(FEATURES), rounds=rounds, steps=steps, batch_size=20
    )
