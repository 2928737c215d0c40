"""Print the Markdown tables of a result file, for docs/speed.md.

Run it as ``python benchmarks/table.py benchmarks/results/simulation-cpu.json``, or with a result of
``aggregation.py``, ``against.py``, ``methods.py`` or ``deployment.py``.
"""

import json
import sys
from pathlib import Path

TIMES = (
    "mean", "NumPy mean", "coordinate median", "Moreau(L1)", "NumPy sort", "NumPy median",
    "byzfl median", "jnp.sort", "Moreau(L2)", "Moreau(L2), 30% far", "geometric median",
    "byzfl geometric median", "Blocks", "its parts",
)  # fmt: skip


def table(head, rows):
    """Print a table; the first column is text."""
    for line in (head, ["---", *["---:"] * (len(head) - 1)], *rows):
        print("| " + " | ".join(map(str, line)) + " |")
    print()


def figure(rate):
    """Return a number with three significant digits, or with all digits before the point."""
    return "–" if not rate else f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def simulation(report):
    """Print the rounds per second of every library, and the ratios of fedplus to the peers."""
    workloads = list(dict.fromkeys(entry["workload"] for entry in report["fedplus"]))
    contenders = {}
    for entry in report["fedplus"] + report["peers"]:
        who = f"{entry['peer']} {entry.get('version', '')}"
        if entry["peer"] == "fedplus":
            over = f", {entry['active']} active" if entry["active"] != 10 else ""
            who = f"**fedplus**, {entry['method']}{over}"
        contenders.setdefault(who, {})[entry["workload"]] = entry
    for quantity in (
        "rounds_per_second",
        "first_round_seconds",
        "import_and_compile_seconds",
        "peak_rss_mb",
    ):
        rows = [
            [who, *(figure(entries.get(w, {}).get(quantity)) for w in workloads)]
            for who, entries in contenders.items()
            if any(quantity in entry for entry in entries.values())
        ]
        table([quantity.replace("_", " "), *workloads], rows)
    columns = list(dict.fromkeys(key for line in report["verdicts"] for key in line))
    table(columns, [[line.get(c, "–") for c in columns] for line in report["verdicts"]])
    print(report["peaks"])


def aggregation(report):
    """Print milliseconds, ratios, warm starts, the recursion and memory."""
    times = [name for name in TIMES if name in report["sizes"][0]["ms"]]
    rows = [
        [
            f"{row['n']} × {row['d']:,}",
            *(f"{row['ms'][t]:.2f}" if t in row["ms"] else "–" for t in times),
        ]
        for row in report["sizes"]
    ]
    table(["N × d, ms", *times], rows)
    columns = list(dict.fromkeys(key for line in report["ratios"] for key in line))
    table(columns, [[line.get(c, "–") for c in columns] for line in report["ratios"]])
    warm = report["warm start, 10 of 1000 moved"]
    table(
        ["aggregator", "from scratch, ms", "from last round's w̃, ms", "share"],
        [
            [n, f"{w['cold']:.1f}", f"{w['warm']:.1f}", f"{w['warm'] / w['cold']:.2f}"]
            for n, w in warm.items()
        ],
    )
    table(
        ["ψ", "`Moreau`, ms", "`Recursion`, ms", "ratio", "iterations", "residuals"],
        [
            [n, f"{r['Moreau']:.2f}", f"{r['recursion']:.2f}", f"{r['recursion'] / r['Moreau']:.0f}",
             "{} : {}".format(*r["iterations"]), "{:.1e} : {:.1e}".format(*r["residuals"])]
            for n, r in report["against the recursion"].items()
        ],
    )  # fmt: skip
    memory = report.get("peak extra memory in W", {})
    table(["peak memory beyond W", "in W"], [[f"`{n}`", m] for n, m in memory.items()])


def methods(report):
    """Print the rounds per second of SCAFFOLD and other methods, of fedplus and of the peers."""
    peers = {"pfl": "pfl", "fluke": "fluke", "fedlab": "FedLab", "fedjax": "FedJAX"}
    names = {"scaffold": "SCAFFOLD", "ditto": "Ditto", "apfl": "APFL", "pfedme": "pFedMe"}
    rows = []
    for method, of in report["methods"].items():
        rates = {one["peer"]: one["rounds_per_second"] for one in of["peers"]}
        mine = of["fedplus"]["rounds_per_second"]
        fastest = max(rate for peer, rate in rates.items() if peer != "fedjax")
        rows.append([
            names[method], figure(mine), *(figure(rates.get(peer)) for peer in peers),
            f"{mine / fastest:.1f}",
        ])  # fmt: skip
    ahead = "times the fastest of pfl, fluke, FedLab"
    table(["", "**fedplus**", *peers.values(), ahead], rows)


def deployment(report):
    """Print the seconds per round, the server's processor time, the bytes sent, and memory."""

    def name(who):
        return who if who.startswith("Flower") else f"**fedplus**, {who}"

    flower = "Flower's FedAvg"
    for rounds in report["rounds"].values():
        rows = [
            [name(who), f"{of['first']:.2f}", f"{of['later']:.2f}",
             f"{of['later'] / rounds[flower]['later']:.2f}"]
            for who, of in rounds.items()
        ]  # fmt: skip
        table(["seconds", "first round", "median round", f"in {flower}"], rows)
    server = report["server"]
    sizes = [f"d = {int(d):,}" for d in server]
    large = list(server)[-1]
    rows = [
        [name(who), *(f"{1000 * server[d][who]['later']:,.0f}" for d in server),
         f"{1000 * server[large][who]['first']:,.0f}"]
        for who in server[large]
    ]  # fmt: skip
    table(["the server's CPU a round, ms", *sizes, f"first round (compiles), {sizes[-1]}"], rows)
    rows = []
    for one in report["messages"]:
        sent = one["to the party"], one["to the server"]
        beyond = sorted(number - 4 * one["d"] for number in sent)
        rows.append([f"{one['d']:,}", *(f"{n:,}" for n in sent), "{:,} to {:,}".format(*beyond)])
    table(["d", "bytes to a party", "bytes to the server", "beyond 4 d"], rows)
    counts = list(dict.fromkeys(one["n"] for one in report["memory"]))
    rows = [
        [f'`over="{over}"`',
         *(f"{o['MB']:.0f}" for n in counts for o in report["memory"]
           if (o["over"], o["n"]) == (over, n))]
        for over in ("active", "all")
    ]  # fmt: skip
    head = "the server's peak memory beyond its start, MB (d = 20,000, ten parties a round)"
    table([head, *(f"N = {n:,}" for n in counts)], rows)


def against(report):
    """Print the speed of this checkout as a share of that of another one."""
    sizes = report["aggregation"]
    names = list(dict.fromkeys(name for row in sizes.values() for name in row))
    plain = [name for name in names if not name.endswith("from w̃")]
    rows = [[size, *(row[name]["share"] for name in plain)] for size, row in sizes.items()]
    table([f"share of {report['other']}'s speed", *plain], rows)
    (warm,) = [row for row in sizes.values() if len(row) > len(plain)]
    table(
        ["10 of 1,000 parties moved (d = 7,850)", f"share of {report['other']}'s speed"],
        [[name, warm[name]["share"]] for name in names if name not in plain],
    )
    rows = [
        [name, *map(figure, row["rounds a second"]), row["share"],
         *(f"{mb:,.0f}" for mb in row["peak MB"])]
        for name, row in report["simulation"].items()
    ]  # fmt: skip
    other = report["other"]
    table(["", f"{other}, rounds/s", "now", "share", f"{other}, peak MB", "now, peak MB"], rows)


KINDS = {
    "fedplus": simulation, "methods": methods, "server": deployment, "sizes": aggregation,
    "other": against,
}  # fmt: skip
"""A key that only one kind of result has ↦ the function that prints its tables."""


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    next(made for key, made in KINDS.items() if key in found)(found)
