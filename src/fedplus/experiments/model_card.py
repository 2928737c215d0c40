"""``model-card.md`` of a run folder: what the models are, how they were trained, and their limits."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedplus import __version__
from fedplus._types import NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.notes import data_notes
from fedplus.data.preprocessing import Preprocessing
from fedplus.experiments.spec import Spec, to_toml
from fedplus.models.task import Task

MAX_PARTIES = 200
"""The largest number of parties in the table."""


def model_card(
    spec: Spec, federation: Federation, task: Task, scores: Mapping[str, NumpyArray | None],
    metrics: Mapping[str, Any] | None, message: str = "",
) -> str:  # fmt: skip
    """Return the card as Markdown.

    Args:
        spec: The specification of the run.
        federation: The parties that trained.
        task: The task, which names the score.
        scores: (N,) test scores by column heading; None if they are not known.
        metrics: The content of ``metrics.json``, if there is one.
        message: A warning about the run, or "".
    """
    (method,) = spec.methods
    info = federation.info
    preprocessing = info.preprocessing or Preprocessing()
    predicts = (
        f"one of the classes {', '.join(info.classes)}" if info.classes else "see the settings"
    )
    if task.name == "regression":
        predicts = "a number"
    target = f"`{preprocessing.target}`: " if preprocessing.target else ""
    rounds, seed = spec.train.rounds, spec.seeds[0]
    lines = [
        f"# {spec.title or f'{method.label} on {federation.name}'}",
        "",
        f"Models of {federation.parties} parties, trained by {method.label} with fedplus {__version__} "
        "in a simulation: on one machine, as if no sample had left its party.",
        "",
        f"- **Predicts** {target}{predicts}.",
        f"- **Model**: {spec.model.name}; one for each party (`models/`), and a global one "
        "(`global.safetensors`).",
        f"- **Data**: {federation.name}, {len(federation.train.y):,} training and "
        f"{len(federation.test.y):,} test samples.",
        *([f"- **Inputs**: {preprocessing.summary}."] if preprocessing.summary else []),
        f"- **Training**: {rounds} rounds, seed {seed}; all settings are at the end.",
        *(
            [f"- **Stand-in**: these data stand in for {info.stand_in_for}."]
            if info.stand_in_for
            else []
        ),
        "",
        "## Scores",
        "",
        f"{task.score_name.capitalize()} of each party on its {spec.data.judged_on} samples "
        f"({task.better} is better), and other metrics of its own model.",
        "",
        *_score_table(federation, scores, metrics),
        "",
        "## Use and limits",
        "",
        "- A party's own model is meant for new samples of that party, the global model for others. "
        "The scores say nothing about samples that are collected or measured in another way.",
        "- The scores are those of one split into training and test samples; small parties' scores are "
        "uncertain. Check the models on new samples before decisions depend on them.",
        "- Whoever has a model can learn something about the samples that it was trained on. There is "
        "neither differential privacy nor secure aggregation.",
        *(f"- {note}" for note in ([message] if message else []) + data_notes(federation)),
        "",
        "## Settings",
        "",
        "```toml",
        to_toml(spec).rstrip(),
        "```",
        "",
    ]
    return "\n".join(lines)


def _score_table(
    federation: Federation,
    scores: Mapping[str, NumpyArray | None],
    metrics: Mapping[str, Any] | None,
) -> list[str]:
    """Return a Markdown table with one row per party, and one for their mean."""
    columns: dict[str, NumpyArray] = {k: np.asarray(v) for k, v in scores.items() if v is not None}
    if metrics is not None:
        for name, metric in metrics["metrics"].items():
            columns[name.replace("_", " ")] = np.array(metric["personal"], float)
    heading = ["party", "training samples", "test samples", *columns]
    rows = [
        [name, f"{train:,}", f"{test:,}", *(_text(values[k]) for values in columns.values())]
        for k, (name, train, test) in enumerate(
            zip(federation.names, federation.train.size, federation.test.size, strict=True)
        )
    ]
    means = [_text(_mean(values)) for values in columns.values()]
    total = [f"{n:,}" for n in (len(federation.train.y), len(federation.test.y))]
    if len(rows) > MAX_PARTIES:
        more = len(rows) - MAX_PARTIES
        rows = [*rows[:MAX_PARTIES], [f"… {more:,} more", *[""] * (len(heading) - 1)]]
    rows.append(["all, mean", *total, *means])
    return [
        _row(heading),
        _row(["---", *["---:"] * (len(heading) - 1)]),
        *(_row([cell.replace("|", "\\|") for cell in row]) for row in rows),
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _mean(values: NumpyArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else float("nan")


def _text(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "–"
