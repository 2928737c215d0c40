"""Markdown tables of a result, for docs/speed.md.

Run it as ``python benchmarks/table.py benchmarks/results/simulation-cpu.json``, or with a result of
``aggregation.py``.
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
    """Three digits, or all before the point."""
    return "–" if not rate else f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def simulation(report):
    """Rounds a second of every contender, and ours in terms of theirs."""
    workloads = list(dict.fromkeys(entry["workload"] for entry in report["fedplus"]))
    contenders = {}
    for entry in report["fedplus"] + report["peers"]:
        who = f"{entry['peer']} {entry.get('version', '')}"
        if entry["peer"] == "fedplus":
            over = f", {entry['active']} active" if entry["active"] != 10 else ""
            who = f"**fedplus**, {entry['method']}{over}"
        contenders.setdefault(who, {})[entry["workload"]] = entry
    told = ("rounds_per_second", "first_round_seconds", "import_and_compile_seconds", "peak_rss_mb")
    for what in told:
        rows = [
            [who, *(figure(entries.get(w, {}).get(what)) for w in workloads)]
            for who, entries in contenders.items()
            if any(what in entry for entry in entries.values())
        ]
        table([what.replace("_", " "), *workloads], rows)
    columns = list(dict.fromkeys(key for line in report["verdicts"] for key in line))
    table(columns, [[line.get(c, "–") for c in columns] for line in report["verdicts"]])
    print(report["peaks"])


def aggregation(report):
    """Milliseconds, ratios, warm start, the recursion and memory."""
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
        ["aggregator", "from scratch, ms", "from last round's w̃, ms", "share",
         "`Followed`, ms", "share"],
        [
            [n, f"{w['cold']:.1f}", f"{w['warm']:.1f}", f"{w['warm'] / w['cold']:.2f}",
             f"{w['followed']:.1f}", f"{w['followed'] / w['cold']:.2f}"]
            for n, w in warm.items()
        ],
    )  # fmt: skip
    table(
        ["ψ", "`Moreau`, ms", "`Recursion`, ms", "ratio", "turns", "residuals"],
        [
            [n, f"{r['Moreau']:.2f}", f"{r['recursion']:.2f}", f"{r['recursion'] / r['Moreau']:.0f}",
             "{} : {}".format(*r["turns"]), "{:.1e} : {:.1e}".format(*r["residuals"])]
            for n, r in report["against the recursion"].items()
        ],
    )  # fmt: skip
    memory = report.get("peak extra memory in W", {})
    table(["peak memory beyond W", "in W"], [[f"`{n}`", m] for n, m in memory.items()])


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    (simulation if "fedplus" in found else aggregation)(found)
