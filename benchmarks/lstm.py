"""Compare the speed of local steps of the paper's LSTM: fedplus, plain JAX and PyTorch, on a CPU.

    python benchmarks/lstm.py                # writes benchmarks/results/lstm-cpu.json
    python benchmarks/lstm.py --steps 2      # shorter rounds
    python benchmarks/lstm.py --no-peers     # without PyTorch
    python benchmarks/lstm.py --only "fedplus, loop" "PyTorch, 1 thread"

A round is 10 parties, each 10 steps of SGD on a batch of 10 sequences (25 tokens of 300 entries) with
two layers of 256. Contenders alternate, so that a busy machine disturbs all alike; "cpu" is the CPU
time of a process, which other processes hardly change. PyTorch loops over the parties, as its users do,
with one thread and with two.
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
# A round of 10 steps: a layer takes 2·T·B·4H·(F+H) operations forward and about twice as many backward.
GFLOP = 149.0


def plain(params, x):
    """Return the outputs of the same network as a plain scan, which JAX differentiates."""
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
    """Return a function that runs a round as the simulation does, and returns its wall and CPU time.

    Models are raveled, steps are scanned, and parties are mapped by ``vmap`` or by a loop.
    """
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
    """Return a function that runs the same round in PyTorch, and returns its wall and CPU time.

    PyTorch runs in a separate environment and process.
    """
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
    """Run the benchmark, print its results and write them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    ours = lstm().apply
    makers = {
        "autodiff, vmap": lambda: in_jax(plain, "vmap", options.steps),
        "autodiff, loop": lambda: in_jax(plain, "loop", options.steps),
        "fedplus, vmap": lambda: in_jax(ours, "vmap", options.steps),
        "fedplus, loop": lambda: in_jax(ours, "loop", options.steps),
    }
    if not options.no_peers:
        makers["PyTorch, 1 thread"] = lambda: in_torch(1, options.steps)
        makers["PyTorch, 2 threads"] = lambda: in_torch(2, options.steps)
    contenders = {name: makers[name]() for name in options.only or makers}
    times = {name: [] for name in contenders}
    for repeat in range(options.repeats + 1):  # The first call compiles and is not counted.
        for name, call in contenders.items():
            found = call()
            times[name] += [found] if repeat else []

    share = 10 / options.steps
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
        "steps": options.steps,
        "rows": rows,
    }
    if not options.only:
        path = HERE / "results" / f"lstm-{jax.default_backend()}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
