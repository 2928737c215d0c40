"""Run fedplus on one workload in a separate process, like the peers, and print one line of JSON.

python benchmarks/ours.py --workload A10 --method fedgeomed+ --seconds 10
"""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "peers"))

import jax
from clock import peak_megabytes, since_start
from workloads import HIDDEN, METHODS, WORKLOADS, federation

import fedplus as fp
from fedplus import baselines, models, presets


def build_method(name, eta):
    """Return a method by name; with "@active" at the end it aggregates only the active parties."""
    name, _, over = name.partition("@")
    plus = {"eta": eta, "sigma": 1.0, "delta": 0.1}
    made = {
        "fedavg": lambda: presets.fedavg(eta=eta),
        "fedavg+": lambda: presets.fedavg_plus(**plus),
        "fedgeomed+": lambda: presets.fedgeomed_plus(**plus),
        "fedcomed+": lambda: presets.fedcomed_plus(**plus),
        "scaffold": lambda: baselines.Scaffold(eta_l=eta),
        "ditto": lambda: baselines.Ditto(eta=eta, lam=METHODS["ditto"]["lam"]),
        "apfl": lambda: baselines.APFL(eta=eta, alpha=METHODS["apfl"]["alpha"], adaptive=False),
        "pfedme": lambda: baselines.PFedMe(
            eta=eta, lam=METHODS["pfedme"]["lam"], eta_inner=eta, inner=METHODS["pfedme"]["inner"]
        ),
    }[name]()
    return dataclasses.replace(made, over=over) if over else made


def main():
    """Run the workload and print its result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workload", choices=list(WORKLOADS), default="A10")
    parser.add_argument("--method", default="fedavg")
    parser.add_argument(
        "--active", type=int, help="active parties per round; by default the workload's"
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--each", default="auto")
    parser.add_argument("--cores", default="auto", help="a number, or auto: all")
    options = parser.parse_args()
    work = WORKLOADS[options.workload]
    imported = since_start()
    data = federation(work)
    parties = fp.Federation.from_arrays(data, [(x[:20], y[:20]) for x, y in data], name=work.name)
    del data  # The federation has its own copy, as the peers have.
    model = models.logistic(784, 10)
    if work.model == "lstm":
        model = models.lstm(25, 300, hidden=HIDDEN)
        parties = parties._replace(**{
            part: split._replace(y=split.y.astype("int32"))
            for part in ("train", "test")
            if (split := getattr(parties, part))
        })  # fmt: skip

    ready = since_start()

    def run(rounds):
        return fp.simulate(
            build_method(options.method, work.eta), parties, model, rounds=rounds,
            cohort=options.active or work.active, steps=work.steps, epochs=work.epochs,
            batch_size=work.batch, evaluate_every=rounds, each=options.each, progress=False,
            cores=options.cores if options.cores == "auto" else int(options.cores),
        )  # fmt: skip

    def timed(rounds):
        start = time.perf_counter()
        loss = run(rounds).evaluations["global_loss"][-1].mean()
        return time.perf_counter() - start, loss

    _, before = timed(1)
    first = since_start()
    # Set-up, one round and the evaluation are subtracted, because the peers' times exclude them, too.
    few, _ = timed(1)
    rounds, took = 3, 0.0
    while took < options.seconds / 2:
        took, after = timed(rounds)
        took -= few
        rate = (rounds - 1) / max(took, 1e-9)
        rounds = max(rounds + 1, int(min(1.1 * options.seconds * rate, 50 * rounds)))
    print(json.dumps({
        "peer": "fedplus", "version": fp.__version__, "workload": work.name,
        "method": options.method, "active": options.active or work.active,
        "rounds_per_second": round(rate, 2), "first_round_seconds": round(first, 1),
        "import_and_compile_seconds": round(imported + first - ready - few, 1),
        "peak_rss_mb": round(peak_megabytes()),
        "loss_after_one_round": round(float(before), 4), "final_loss": round(float(after), 4),
        "device": str(jax.devices()[0]),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
