"""Run the peers of ``simulation.py``, each in an environment of its own, and write what they print.

    python benchmarks/peers/run.py --out FILE.json
    python benchmarks/peers/run.py --out FILE.json --peers fedlab,fedjax --workloads A10,B
    python benchmarks/peers/run.py --out FILE.json --methods      # on A10, SCAFFOLD and the like too

An environment ``.venv-<peer>`` is made on first use from ``requirements/<peer>.txt``, all pinned.
A peer that cannot be installed, or that fails or takes too long on a workload, gives an entry with
an ``error``, and the rest go on.
"""

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TORCH = "torch==2.13.0"
WORKLOADS = ("A10", "A50", "B", "C")


@dataclasses.dataclass(frozen=True)
class Peer:
    """A script in this folder, its environment, and its methods other than FedAvg."""

    script: str
    environment: str
    torch: bool = True
    methods: tuple[str, ...] = ()


PEERS = {
    "flower": Peer("peer_flower.py", "flower"),
    "pfl": Peer("peer_pfl.py", "pfl", methods=("scaffold",)),
    "fluke": Peer("peer_fluke.py", "fluke", methods=("scaffold", "ditto", "apfl", "pfedme")),
    "fedlab": Peer("peer_fedlab.py", "fedlab", methods=("scaffold",)),
    "fedjax": Peer("peer_fedjax.py", "fedjax", torch=False, methods=("apfl",)),
    "torch_loop": Peer("torch_loop.py", "torch"),
}


def environment(name, requirements):
    """Return the Python of the environment ``.venv-<name>``; create it if it is missing or outdated.

    Args:
        name: The name of the environment.
        requirements: Groups of arguments to ``pip install``, installed one after another.

    Returns:
        The path, or None if the environment cannot be created; then one line says why.
    """
    folder = ROOT / f".venv-{name}"
    python, ready = folder / "bin" / "python", folder / "ready.json"
    specification = json.dumps([sys.version_info[:2], requirements])
    if ready.exists() and ready.read_text() == specification:
        return str(python)
    print(f"{name}: creating {folder.name}", file=sys.stderr, flush=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    commands = [[sys.executable, "-m", "venv", "--clear", str(folder)]]
    commands += [[*install, *group] for group in requirements]
    for command in commands:
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            reason = last_line(run.stderr)
            print(f"{name} cannot be installed: {reason}", file=sys.stderr, flush=True)
            return None
    ready.write_text(specification)
    return str(python)


def requirements_of(peer):
    """Return a peer's groups of requirements: PyTorch with its dependencies, then the pinned packages.

    The pinned packages are installed without dependencies, so that none replaces this PyTorch.
    """
    pins = (HERE / "requirements" / f"{peer.environment}.txt").read_text().split()
    return [[TORCH]] * peer.torch + [["--no-deps", *pins]]


def last_line(text):
    """Return the last line that is not empty."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def run_one(python, peer, workload, method, seconds, timeout):
    """Return what the script printed, or an ``error``.

    A process that takes longer than ``timeout`` is ended together with its child processes.
    """
    command = [python, str(HERE / peer.script), "--workload", workload, "--method", method]
    command += ["--seconds", str(seconds)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return {"error": f"no result after {timeout:.0f} s"}
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        return {"error": last_line(err) or f"exit status {process.returncode}"}
    return json.loads(lines[-1])


def measure(peers=tuple(PEERS), workloads=WORKLOADS, seconds=20.0, methods=False, timeout=None):
    """Run each of the peers on each of the workloads, one at a time.

    Args:
        peers: Names in ``PEERS``.
        workloads: Names in ``workloads.WORKLOADS``.
        seconds: How long rounds are timed in each run.
        methods: Whether to run the peers' other methods on A10 too.
        timeout: Limit of one run in seconds; by default 600 + 3 · ``seconds``.

    Returns:
        One entry per run: what the script printed, or an ``error``.
    """
    found = []
    for name in peers:
        peer = PEERS[name]
        jobs = [(workload, "fedavg") for workload in workloads]
        if methods and "A10" in workloads:
            jobs += [("A10", method) for method in peer.methods]
        python = environment(peer.environment, requirements_of(peer))
        for workload, method in jobs:
            entry = {"peer": name, "workload": workload, "method": method}
            if python is None:
                entry["error"] = "cannot be installed"
            else:
                limit = timeout or 600 + 3 * seconds
                entry |= run_one(python, peer, workload, method, seconds, limit)
            found.append(entry)
            print(json.dumps(entry), flush=True)
    return found


def main():
    """Parse the command line, run the peers and write their results."""

    def names(known):
        def parse(text):
            chosen = text.split(",")
            if unknown := [name for name in chosen if name not in known]:
                message = f"{', '.join(unknown)}: not among {', '.join(known)}"
                raise argparse.ArgumentTypeError(message)
            return chosen

        return parse

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="where to write the JSON")
    parser.add_argument("--peers", type=names(PEERS), default=list(PEERS))
    parser.add_argument("--workloads", type=names(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="seconds of timed rounds per run"
    )
    parser.add_argument("--methods", action="store_true", help="SCAFFOLD and the like on A10 too")
    options = parser.parse_args()
    found = measure(options.peers, options.workloads, options.seconds, options.methods)
    temporary = options.out.with_suffix(".tmp")
    temporary.write_text(json.dumps(found, indent=1) + "\n")
    temporary.replace(options.out)


if __name__ == "__main__":
    main()
