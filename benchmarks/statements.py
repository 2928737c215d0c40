"""Write the figures of ``benchmarks/results`` into README.md and docs/speed.md.

Run it as ``python -m benchmarks.statements`` after new results. Text between ``<!-- name -->`` and
``<!-- end -->`` is generated here, so every ratio in it comes from a committed result.
"""

import json
import math
from pathlib import Path

from papers.fed_plus.write_readme import fill_blocks

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PEERS = {"fluke": "fluke", "fedlab": "FedLab", "pfl": "pfl", "fedjax": "FedJAX", "flower": "Flower"}
TIMES, TIMES_FEDJAX = "times fastest of Flower, pfl, fluke, FedLab", "times FedJAX"
LSTM = "C"
"""The one workload that is not logistic regression."""


def result(name):
    """Read a committed result."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def at_least(number):
    """Return a number with two digits, rounded down, so that a ratio is never overstated.

    >>> at_least(12.39), at_least(5.05), at_least(40.4), at_least(1.29)
    ('12', '5', '40', '1.2')
    """
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return f"{math.floor(number / unit + 1e-9) * unit:.6g}"


def between(numbers):
    """Return the least and the largest of some ratios as text."""
    low, high = at_least(min(numbers)), at_least(max(numbers))
    return low if low == high else f"{low} to {high}"


def verdicts(key, **given):
    """Return a ratio of fedplus's CPU results, for every workload and method that is ``given``.

    The comparison with peers was measured at an earlier commit. If ``against.py`` found that this
    checkout is slower, ratios to peers are reduced accordingly.
    """
    return [
        line[key] * (1 if key.startswith("share") else slower(line["workload"], line["method"]))
        for line in result("simulation-cpu")["verdicts"]
        if key in line and all(line[name] in allowed for name, allowed in given.items())
    ]


def slower(workload, method):
    """Return the share of the earlier commit's speed that is left, at most 1."""
    row = result("against-cpu")["simulation"].get(f"{workload} {method}", {})
    return min(row.get("share", 1), 1)


def methods_ahead():
    """Return how many times the fastest peer's rounds per second SCAFFOLD and others make.

    FedJAX is not counted.
    """
    found = []
    for of in result("methods-cpu")["methods"].values():
        rates = [one["rounds_per_second"] for one in of["peers"] if one["peer"] != "fedjax"]
        found.append(of["fedplus"]["rounds_per_second"] / max(rates))
    return found


def readme():
    """Return the README's paragraph about speed."""
    logistic = {"workload": ("A10", "A50", "B")}
    medians = [
        row["ms"]["NumPy median"] / row["ms"]["coordinate median"]
        for row in result("aggregation-cpu")["sizes"]
        if row["n"] == 1000
    ]
    return f"""\
- **Fast.** Whole rounds are one compiled program. On two cores FedAvg and the Fed+ variants make {between(verdicts(TIMES, **logistic))} times the
  rounds a second of the fastest of Flower, pfl, fluke and FedLab (FedAvg), and {between(verdicts(TIMES_FEDJAX, **logistic))} times FedJAX's, for logistic regression with
  ten active parties of 10, 50 or 1,000; SCAFFOLD, Ditto, APFL and pFedMe {between(methods_ahead())} times the fastest of pfl, fluke and FedLab. On an LSTM
  it is {between(verdicts(TIMES, workload=(LSTM,)))} times the fastest of these. A coordinatewise median of a thousand models is {at_least(min(medians))} or more times as fast as
  `np.median`. [docs/speed.md](docs/speed.md) has all figures, and where others are ahead."""  # noqa: E501


def peaks():
    """Return the text on the machine's peak rates, which were measured in the same run."""
    found = result("simulation-cpu")["peaks"]
    return (
        f'"Peak" is what the same run measured: {found["gigaflops a second"]} GFLOP/s of a large '
        f"product, {found['gigabytes a second']} GB/s of reading rows at random (a party's rows,\n"
        "read again and again, are in the cache: shares above 1)."
    )


def limits():
    """Return the text on workloads for which a peer is ahead of fedplus, or nearly."""
    report = result("simulation-cpu")
    ours = {e["workload"]: e["peak_rss_mb"] for e in report["fedplus"] if e["method"] == "fedavg"}
    leaner = [
        f"{workload} {', '.join(who)}"
        for workload, mine in ours.items()
        for who in [
            [
                f"{PEERS[e['peer']]} ({e['peak_rss_mb']:.0f} MB)"
                for e in sorted(report["peers"], key=lambda e: e["peak_rss_mb"])
                if e["workload"] == workload and e["peak_rss_mb"] < mine
            ]
        ]
        if who
    ]
    over_all = {
        name: at_least(verdicts(TIMES, workload=("B",), method=(name,))[0])
        for name in ("fedgeomed+", "fedavg+", "fedcomed+")
    }
    lstm = {
        name: verdicts(TIMES, workload=(LSTM,), method=(name,))[0]
        for name in ("fedavg", "fedgeomed+@active")
    }
    (flops,) = verdicts("share of peak flops", workload=(LSTM,), method=("fedavg",))
    return f"""\
- **Memory**: peers that take less than FedAvg does here: {"; ".join(leaner)}.
- **FedGeoMed+ over all of a thousand parties** (B without "@active") makes {over_all["fedgeomed+"]} times the rounds of the fastest of Flower, pfl, fluke and
  FedLab, which aggregate ten models with FedAvg; FedAvg+ makes {over_all["fedavg+"]} times and FedCoMed+ {over_all["fedcomed+"]} times.
- **C**: {lstm["fedavg"]:.2f} times the fastest peer's rounds with FedAvg and {lstm["fedgeomed+@active"]:.2f} times with FedGeoMed+@active. A peer's time, too, is nearly all products;
  ours run at {100 * flops:.0f}% of the peak."""  # noqa: E501


def methods_memory():
    """Return the text on the peak memory of the other methods, and on runs that diverged."""
    found = result("methods-cpu")["methods"]
    memory: dict[str, list[float]] = {}
    diverged = []
    for method, of in found.items():
        memory.setdefault("ours", []).append(of["fedplus"]["peak_rss_mb"])
        for one in of["peers"]:
            memory.setdefault(PEERS[one["peer"]], []).append(one["peak_rss_mb"])
            if not one["trained"]:
                diverged.append(f"{PEERS[one['peer']]}'s {method} ({one['final_loss']:.1e})")
    listed = ", ".join(
        f"{who} {min(mb):.0f}" + (f" to {max(mb):.0f}" if round(max(mb)) > round(min(mb)) else "")
        for who, mb in memory.items()
    )
    ended = f" Diverged, with the loss at the end: {', '.join(diverged)}." if diverged else ""
    return f"Peak memory of these runs in MB: {listed}.{ended}"


def loading():
    """Return the text on the time that the data sets take to load."""
    found = {name: s for name, s in result("loading-cpu").items() if s is not None}
    slow = {name: s for name, s in found.items() if s >= 0.2}
    listed = ", ".join(
        f"`{name}` {s:.2f} s" for name, s in sorted(slow.items(), key=lambda one: -one[1])
    )
    rest = max(s for name, s in found.items() if name not in slow)
    return (
        f"{listed}; all others at most {rest:.2f} s. "
        "Of the digits most is the import of scikit-learn."
    )


def aggregation():
    """Return the text that compares ``Blocks`` with its parts, and fedplus with byzfl and NumPy."""
    ratios = result("aggregation-cpu")["ratios"]
    blocks = [1 / row["parts / Blocks"] for row in ratios]
    byzfls = [row["byzfl / Moreau(L2)"] for row in ratios]
    byzfl = min(byzfls)
    numpy = [row["at"] for row in ratios if row["NumPy mean / mean"] < 1]
    return (
        f"`Blocks` takes {min(blocks):.2f} to {max(blocks):.2f} times as long as its parts together, "
        "whose columns were put side by side beforehand.\n"
        f"byzfl's geometric median takes {at_least(byzfl)} to {at_least(max(byzfls))} times as long as "
        f"ours. NumPy's mean is faster than ours at {', '.join(numpy)}."
    )


def first_process():
    """Return the text on the time of a first run with empty caches."""
    row = result("against-cpu")["first round with empty caches, B fedgeomed+"]
    times = {who: min(seconds) for who, seconds in row["seconds"].items()}
    return (
        "From the start of the first process ever to the end of its first round, B with FedGeoMed+: "
        f"{times['this']:.1f} s. The Numba version took {row['share']} times as long."
    )


def gpu():
    """Return the text that explains the share of a GPU's bandwidth."""
    copied = result("aggregation-gpu")["bandwidth"]
    return (
        "The share of the bandwidth is that of the mean in such calls, against a plain copy measured "
        f"in the same run ({copied:.0f} GB/s)."
    )


PAGES = {
    "README.md": {"speed": readme},
    "docs/speed.md": {
        "peaks": peaks, "limits": limits, "methods-memory": methods_memory, "loading": loading,
        "aggregation": aggregation, "gpu-bandwidth": gpu, "first-process": first_process,
    },
}  # fmt: skip
"""Page ↦ name of a block ↦ the function that returns its text."""


def pages():
    """Return the text of every page with up-to-date blocks."""
    return {
        name: fill_blocks(
            (ROOT / name).read_text(encoding="utf-8"),
            {block: made() for block, made in blocks.items()},
        )
        for name, blocks in PAGES.items()
    }


if __name__ == "__main__":
    for page, text in pages().items():
        (ROOT / page).write_text(text, encoding="utf-8")
