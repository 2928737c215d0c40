"""Table and figure of the attack study, from its committed results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.fed_plus.formatting import settings_table
from papers.fed_plus.plot import legend_handles, method_colour, method_marker, pyplot
from papers.fed_plus.results import Record, read_csv, read_json

from fedplus.experiments.defaults import LABELS
from fedplus.report.table_formats import markdown_table

TITLES = {
    "sign_flip": "sign flip, × 3", "scaling": "scaling, × 10", "gaussian": "Gaussian noise, s.d. 1",
    "a_little_is_enough": "a little is enough, z = 1.5", "inner_product": "inner product, ε = 2",
}  # fmt: skip
PICTURE = (
    "![Accuracy of honest parties over the share that attacks, five attacks](results/attacks.png)"
)


def blocks(results: Path) -> Mapping[str, str]:
    """Return the accuracies at each attack's largest share, and the chosen settings."""
    if not (results / "attacks.csv").exists():
        return {}
    records = read_csv(results / "attacks.csv")
    return {
        "attacks": f"{PICTURE}\n\n{_accuracy_table(records)}",
        "attacks-settings": settings_table(read_json(results / "attacks-tuning.json"), ""),
    }


def _accuracy_table(records: Sequence[Record]) -> str:
    """Return a row per method and a column per attack, at its largest share; the worst comes last."""
    attacks = _present_attacks(records)
    largest = {a: max(r["share"] for r in records if r["attack"] == a) for a in attacks}
    headings = [
        "",
        "no attack",
        *(f"{TITLES[a]}, {100 * largest[a]:.0f}%" for a in attacks),
        "worst",
    ]
    rows = []
    for label in dict.fromkeys(record["label"] for record in records):
        by_case = {(r["attack"], r["share"]): r for r in records if r["label"] == label}
        attacked = [by_case.get((attack, largest[attack])) for attack in attacks]
        scores = [record["honest"] for record in attacked if record is not None]
        worst = "–"
        if scores:
            worst = "failed" if None in scores else f"{100 * min(scores):.1f}"
        rows.append([label, _cell(by_case.get(("none", 0.0))), *map(_cell, attacked), worst])
    return markdown_table(headings, rows)


def _present_attacks(records: Sequence[Record]) -> list[str]:
    present = {record["attack"] for record in records}
    return [attack for attack in TITLES if attack in present]


def _cell(record: Record | None) -> str:
    if record is None:
        return "–"
    failed = f"failed {record['failed']:.0f} of {record['seeds']:.0f}" if record["failed"] else ""
    if record["honest"] is None:
        return failed
    std = "" if record["honest_std"] is None else f" ± {100 * record['honest_std']:.1f}"
    return f"{100 * record['honest']:.1f}{std}" + (f" ({failed})" if failed else "")


def draw(results: Path) -> Mapping[str, Any]:
    """Return one panel per attack: accuracy over the share of attackers."""
    if not (results / "attacks.csv").exists():
        return {}
    records = read_csv(results / "attacks.csv")
    attacks = _present_attacks(records)
    if not attacks:
        return {}
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(attacks), figsize=(2.6 * len(attacks) + 0.6, 3.6), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, attack in zip(axes[0], attacks, strict=True):
        _panel(axis, [record for record in records if record["attack"] in ("none", attack)])
        axis.set_title(TITLES[attack])
        axis.set_xlabel("share that attacks, %")
        axis.set_ylim(-2, 100)
    axes[0, 0].set_ylabel("accuracy of honest parties, %")
    handles = legend_handles(axes[0, :1])
    columns = min(6, len(handles))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=columns)
    plt.close(figure)
    return {"attacks": figure}


def _panel(axis: Any, records: Sequence[Record]) -> None:
    """Draw one attack. A cross at the bottom marks a case in which every run diverged."""
    for label in dict.fromkeys(record["label"] for record in records):
        of_label = [record for record in records if record["label"] == label]
        of_label.sort(key=lambda record: record["share"])
        method = of_label[0]["method"]
        style = {"color": method_colour(method), "label": label}
        if method == "local":
            axis.axhline(100 * (of_label[0]["honest"] or 0), linewidth=1, linestyle=":", **style)
            continue
        finished = [record for record in of_label if record["honest"] is not None]
        axis.errorbar(
            [100 * record["share"] for record in finished],
            [100 * record["honest"] for record in finished],
            [100 * (record["honest_std"] or 0) for record in finished],
            marker=method_marker(method), linewidth=1.2, capsize=2,
            linestyle="-" if label == LABELS[method] else "--", **style,
        )  # fmt: skip
        failed = [100 * record["share"] for record in of_label if record["honest"] is None]
        axis.plot(failed, [0.0] * len(failed), "x", color=method_colour(method))
