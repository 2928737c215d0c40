"""Markdown tables of a result of simulation.py, for docs/speed.md.

python benchmarks/table.py benchmarks/results/simulation-cpu.json
"""

import json
import sys
from pathlib import Path


def row(cells):
    """One line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def figure(rate):
    """Three digits, or all before the point."""
    return "–" if not rate else f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def main(path):
    """Print them."""
    report = json.loads(Path(path).read_text())
    workloads = list(dict.fromkeys(entry["workload"] for entry in report["fedplus"]))
    contenders = {}
    for entry in report["fedplus"] + report["peers"]:
        who = f"**fedplus**, {entry['method']}" if entry["peer"] == "fedplus" else entry["peer"]
        if entry["peer"] != "fedplus":
            who += f" {entry.get('version', '')}, {entry['method']}"
        elif entry["active"] != 10:
            who += f", {entry['active']} active"
        contenders.setdefault(who, {})[entry["workload"]] = entry
    print(row(["rounds/s", *workloads]))
    print(row(["---", *["---:"] * len(workloads)]))
    for who, entries in contenders.items():
        rates = [entries.get(w, {}).get("rounds_per_second") for w in workloads]
        print(row([who, *(figure(r) for r in rates)]))
    print()
    peaks = ", ".join(f"{value:g} {name}" for name, value in report["peaks"].items())
    print(f"Machine: {report['device']}, {report['cores']} cores, {peaks}.")
    for line in report["verdicts"]:
        if line["method"] == "fedavg":
            print({k: v for k, v in line.items() if k != "method"})


if __name__ == "__main__":
    main(sys.argv[1])
