"""Compare implementations of the paper's LSTM on a CPU, and PyTorch's, by their local steps.

    python benchmarks/lstm.py                # writes benchmarks/results/lstm-cpu.json
    python benchmarks/lstm.py --steps 2      # shorter rounds
    python benchmarks/lstm.py --no-peers     # without PyTorch
    python benchmarks/lstm.py --only "fedplus, loop" "PyTorch, 1 thread"

A round is 10 parties, each 10 steps of SGD on a batch of 10 sequences (25 tokens of 300 entries) with
two layers of 256. Contenders take turns, so that a busy machine disturbs all alike; "cpu" counts the
seconds that a process computes, whatever else runs. PyTorch loops over the parties as its users' code
does, with one thread and with two.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from fedplus.models import lstm, ravel
from fedplus.models.dense import affine

HERE = Path(__file__).parent
PARTIES, BATCH, TOKENS, FEATURES = 10, 10, 25, 300
GFLOP = 149.0  # A round of 10 steps: 2·T·B·4H·(F+H) and so on, forward once, backward about twice.


def plain(params, x):
    """Return the same network, with automatic differentiation of the scan."""
    states = jnp.swapaxes(x, 0, 1)
    for name in ("lstm0", "lstm1"):
        layer = params[name]
        projected = states @ layer["input"] + layer["bias"]
        zero = jnp.zeros((BATCH, layer["recurrent"].shape[0]))

        def step(carry, p, layer=layer):
            h, c = carry
            i, f, g, o = jnp.split(p + h @ layer["recurrent"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        _, states = jax.lax.scan(step, (zero, zero), projected)
    return affine(params["head"], states[-1])


def in_jax(apply, over_parties, steps):
    """Return a round as in the simulation: raveled models, a scan over steps, vmap or a loop."""
    model = lstm()
    flat = ravel(model.init(jax.random.key(0)))
    x = jax.random.normal(jax.random.key(1), (PARTIES, BATCH, TOKENS, FEATURES))
    y = jax.random.randint(jax.random.key(2), (PARTIES, BATCH), 0, 2)

    def loss(w, x, y):
        return jnp.mean(model.task.loss(apply(flat.unravel(w), x), y))

    def party(arguments):
        w, x, y = arguments
        steps_of_sgd = jax.lax.scan(
            lambda w, _: (w - 0.3 * jax.grad(loss)(w, x, y), None), w, length=steps
        )
        return steps_of_sgd[0]

    over = jax.vmap(party) if over_parties == "vmap" else lambda a: jax.lax.map(party, a)
    compiled = jax.jit(over)
    w = jnp.tile(flat.w, (PARTIES, 1))

    def call():
        start, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(compiled((w, x, y)))
        return time.perf_counter() - start, time.process_time() - cpu

    return call


def in_torch(threads, steps):
    """Run the same round in PyTorch, in a separate environment and process."""
    environment = HERE.parent / ".venv-torch"
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "torch==2.13.0", "numpy"]
        subprocess.run(install, check=True)
    command = [python, HERE / "peer_torch_lstm.py", str(threads), str(steps)]
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call():
        peer.stdin.write("\n")
        peer.stdin.flush()
        return tuple(json.loads(peer.stdout.readline()))

    return call


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--only", nargs="*")
    chosen = parser.parse_args()
    ours = lstm().apply
    makers = {
        "autodiff, vmap": lambda: in_jax(plain, "vmap", chosen.steps),
        "autodiff, loop": lambda: in_jax(plain, "loop", chosen.steps),
        "fedplus, vmap": lambda: in_jax(ours, "vmap", chosen.steps),
        "fedplus, loop": lambda: in_jax(ours, "loop", chosen.steps),
    }
    if not chosen.no_peers:
        makers["PyTorch, 1 thread"] = lambda: in_torch(1, chosen.steps)
        makers["PyTorch, 2 threads"] = lambda: in_torch(2, chosen.steps)
    contenders = {name: makers[name]() for name in chosen.only or makers}
    times = {name: [] for name in contenders}
    for turn in range(chosen.repeats + 1):  # The first compiles.
        for name, call in contenders.items():
            found = call()
            times[name] += [found] if turn else []

    share = 10 / chosen.steps
    rows = {
        name: {
            "rounds/s": round(1 / (share * np.median([wall for wall, _ in pairs])), 3),
            "best rounds/s": round(1 / (share * min(wall for wall, _ in pairs)), 3),
            "cpu s/round": round(share * float(np.median([cpu for _, cpu in pairs])), 3),
            "best cpu s/round": round(share * min(cpu for _, cpu in pairs), 3),
        }
        for name, pairs in times.items()
    }
    for name, row in rows.items():
        print(f"{name:20s}", *(f"{key} {value:7.3f} " for key, value in row.items()))
    if "fedplus, loop" in rows:
        best = rows["fedplus, loop"]["best cpu s/round"]
        print(f"fedplus, loop: {GFLOP / best:.0f} GFLOP for a second of cpu")
    result = {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "jax": jax.__version__,
        "steps": chosen.steps,
        "rows": rows,
    }
    if not chosen.only:
        path = HERE / "results" / f"lstm-{jax.default_backend()}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
