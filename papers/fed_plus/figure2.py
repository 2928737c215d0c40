"""Figure 2: training curves, which show whether training collapses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from papers.fed_plus.evaluation import load_parameter_vector
from papers.fed_plus.plot import method_colour, method_marker, pyplot
from papers.fed_plus.portfolio_runs import BASIS_POINTS, PortfolioRun
from papers.fed_plus.results import group_records, read_csv_if_exists, to_csv
from papers.fed_plus.study import Files, Study, StudyOptions

from fedplus._types import NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.split import Split
from fedplus.experiments.build import build_federation, build_model
from fedplus.experiments.run_folder import MODELS, party_file_name
from fedplus.experiments.spec import Spec
from fedplus.experiments.toml_source import TomlSource
from fedplus.models import Model
from fedplus.report.table_formats import markdown_table
from fedplus.simulation.evaluate import constant_answer_scores, evaluate_parties, split_into_blocks
from papers.fed_plus import portfolio_runs

FILE, HELD_OUT = "figure2.csv", "figure2-held-out.csv"
UNIFORM = "uniform"


def collect(options: StudyOptions) -> Files:
    """Return the training curves, and the last models' scores on days that nobody trained on.

    The curves have one row per setting, method and evaluated round. Scores are in basis points per day.
    """
    records, held_out = [], []
    for group in portfolio_runs.group_by_method(portfolio_runs.runs(options)).values():
        columns = portfolio_runs.identifying_columns(group)
        curves = [[line["personal"]["mean"] for line in run.lines] for run in group]
        uniform = float(np.mean([run.folder.parties["majority"] for run in group]))
        held_out.append(columns | held_out_scores(group))
        for i, line in enumerate(group[0].lines):
            scores = BASIS_POINTS * np.array([c[i] for c in curves if i < len(c)], float)
            records.append(
                columns
                | {
                    "round": line["round"], "mean": float(scores.mean()),
                    "least": float(scores.min()), "most": float(scores.max()),
                    UNIFORM: BASIS_POINTS * uniform,
                }
            )  # fmt: skip
    return {FILE: to_csv(records), HELD_OUT: to_csv(held_out)}


def held_out_scores(group: list[PortfolioRun]) -> dict[str, float]:
    """Return the last models' mean score over parties and seeds on validation and test days."""
    spec = Spec.model_validate(group[0].folder.spec)
    data = spec.data.model_copy(update={"judged_on": "test"})
    federation = build_federation(data, TomlSource())
    model = build_model(spec.model, federation, TomlSource())
    scores: dict[str, float] = {}
    for name, split in (("validation", federation.validation), ("test", federation.test)):
        assert split is not None
        of_runs = [_mean_score(model, split, final_models(run, federation, model)) for run in group]
        uniform = constant_answer_scores(federation._replace(test=split), model.task)
        assert uniform is not None
        scores[name] = BASIS_POINTS * float(np.mean(of_runs))
        scores[f"uniform_{name}"] = BASIS_POINTS * float(np.mean(uniform))
    return scores


def final_models(run: PortfolioRun, federation: Federation, model: Model) -> NumpyArray:
    """Return the parties' models at the end of a run, as an array of shape (N, d)."""
    paths = [run.folder.path / MODELS / party_file_name(name) for name in federation.names]
    return np.stack([load_parameter_vector(path, model) for path in paths])


def _mean_score(model: Model, split: Split, models: NumpyArray) -> float:
    blocks, rows = split_into_blocks(split)
    return float(np.mean(evaluate_parties(model, rows, blocks, jnp.asarray(models)).score))


def draw(results: Path) -> Mapping[str, Any]:
    """Return one panel per setting, one curve per method; bands go from the worst to the best seed."""
    records = read_csv_if_exists(results / FILE)
    if not records:
        return {}
    plt = pyplot()
    settings = group_records(records, "setting").values()
    figure, grid = plt.subplots(
        1, len(settings), figsize=(4.8 * len(settings), 3.6), squeeze=False, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for axes, of_setting in zip(grid[0], settings, strict=True):
        for (method,), of_method in group_records(of_setting, "method").items():
            rounds, mean, least, most = (
                np.array([record[name] for record in of_method])
                for name in ("round", "mean", "least", "most")
            )
            steps = rounds * of_method[0]["steps"]
            style = {"color": method_colour(method), "label": of_method[0]["label"]}
            axes.fill_between(
                steps, least, most, color=method_colour(method), alpha=0.15, linewidth=0
            )
            every = max(1, len(of_method) // 8)
            axes.plot(steps, mean, marker=method_marker(method), markevery=every, **style)
        axes.axhline(of_setting[0][UNIFORM], color="black", linewidth=0.8, linestyle=":")
        title = f"{of_setting[0]['steps']:g} steps between aggregations"
        axes.set(xlabel="steps of a party", title=title)
    grid[0, 0].set_ylabel("return on training days\n(basis points a day, mean over parties)")
    grid[0, -1].legend(fontsize=8, ncols=2, loc="upper left")
    figure.suptitle("Dotted: the uniform portfolio", fontsize=8)
    plt.close(figure)
    return {"figure2": figure}


def blocks(results: Path) -> Mapping[str, str]:
    """Return a table of each curve's beginning, maximum and end, and of days without training."""
    held_out = group_records(read_csv_if_exists(results / HELD_OUT), "setting", "method")
    groups = group_records(read_csv_if_exists(results / FILE), "setting", "method")
    rows = []
    for key, group in groups.items():
        curve = [record["mean"] for record in group]
        lowest = min(group, key=lambda record: record["least"])
        rows.append([
            f"{group[0]['label']}, {group[0]['steps']:g} steps", f"{curve[0]:.1f}",
            f"{max(curve):.1f}", f"{lowest['least']:.1f} in round {lowest['round']:g}",
            f"{curve[-1]:.1f} ({group[-1]['least']:.1f} to {group[-1]['most']:.1f})",
            f"{held_out[key][0]['validation']:.1f}", f"{held_out[key][0]['test']:.1f}",
        ])  # fmt: skip
    if not rows:
        return {}
    training, later = next(iter(groups.values()))[0], next(iter(held_out.values()))[0]
    rows.append([
        "uniform portfolio", "", "", "", f"{training[UNIFORM]:.1f}",
        f"{later['uniform_validation']:.1f}", f"{later['uniform_test']:.1f}",
    ])  # fmt: skip
    headings = [
        "", "first evaluation", "best", "lowest of a seed", "last (over seeds)", "validation days",
        "test days",
    ]  # fmt: skip
    return {"figure2": markdown_table(headings, rows)}


STUDY = Study(
    "figure2", "Figure 2: training curves and collapse, portfolio management",
    portfolio_runs.train, collect, draw, blocks,
)  # fmt: skip
