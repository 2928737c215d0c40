"""The study of attacks as a figure: a panel an attack, accuracy over the share that attacks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.fed_plus.attacks_text import TITLES
from papers.fed_plus.plot import colour, marker, pyplot
from papers.fed_plus.results import read_csv

from fedplus.experiments.defaults import LABELS


def draw(results: Path) -> Mapping[str, Any]:
    """None where there are no results."""
    if not (results / "attacks.csv").exists():
        return {}
    records = read_csv(results / "attacks.csv")
    listed = [attack for attack in TITLES if any(one["attack"] == attack for one in records)]
    if not listed:
        return {}
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(listed), figsize=(2.6 * len(listed) + 0.6, 3.6), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, attack in zip(axes[0], listed, strict=True):
        _panel(axis, [one for one in records if one["attack"] in ("none", attack)])
        axis.set_title(TITLES[attack])
        axis.set_xlabel("share that attacks, %")
        axis.set_ylim(-2, 100)
    axes[0, 0].set_ylabel("accuracy of honest parties, %")
    handles = dict(zip(*reversed(axes[0, 0].get_legend_handles_labels()), strict=True))
    columns = min(6, len(handles))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=columns)
    plt.close(figure)
    return {"attacks": figure}


def _panel(axis: Any, records: Sequence[Mapping[str, Any]]) -> None:
    """A cross at the bottom: every run diverged."""
    for label in dict.fromkeys(one["label"] for one in records):
        mine = sorted((o for o in records if o["label"] == label), key=lambda one: one["share"])
        method = mine[0]["method"]
        style = {"color": colour(method), "label": label}
        if method == "local":
            axis.axhline(100 * (mine[0]["honest"] or 0), linewidth=1, linestyle=":", **style)
            continue
        done = [one for one in mine if one["honest"] is not None]
        axis.errorbar(
            [100 * one["share"] for one in done], [100 * one["honest"] for one in done],
            [100 * (one["honest_std"] or 0) for one in done], marker=marker(method),
            linewidth=1.2, capsize=2, linestyle="-" if label == LABELS[method] else "--", **style,
        )  # fmt: skip
        gone = [100 * one["share"] for one in mine if one["honest"] is None]
        axis.plot(gone, [0.0] * len(gone), "x", color=colour(method))
