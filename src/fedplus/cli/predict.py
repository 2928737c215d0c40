"""``fedplus predict``: apply a trained model to new rows."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from fedplus.check import require
from fedplus.cli.settings import json_option
from fedplus.data.files.formats import read_npz
from fedplus.data.table_encoding import Table, category_texts
from fedplus.data.table_files import read_table
from fedplus.experiments.join_run import DEFAULT_ROUNDS, join_run
from fedplus.experiments.run_folder import RunFolder, iter_run_paths
from fedplus.experiments.trained_model import TrainedModel, load_model
from fedplus.files import write_atomically


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("rows", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--party", help="Use the model of this party.")
@click.option(
    "--global", "use_global", is_flag=True, show_default=False, help="Use the global model."
)
@click.option(
    "--new-party", type=click.Path(path_type=Path), metavar="SAMPLES",
    help="Train a model for a party that was not in the run, on its samples in this file; then use it.",
)  # fmt: skip
@click.option(
    "--steps", type=int, help="Local steps per round of --new-party; by default those of RUN."
)
@click.option("--rounds", type=int, default=DEFAULT_ROUNDS, help="Rounds of --new-party.")
@click.option(
    "--keep", default="", show_default=False, metavar="COLUMN,...",
    help="Columns of FILE to copy into the output, such as an identifier.",
)  # fmt: skip
@click.option(
    "--out", "-o", type=click.Path(path_type=Path),
    help="File to write, .csv or .json; by default CSV is printed.",
)  # fmt: skip
@json_option
def predict(
    run: Path, rows: Path, party: str | None, use_global: bool, new_party: Path | None,
    steps: int | None, rounds: int, keep: str, out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Predict the target for the rows of a table, with a model of a finished run.

    RUN is a run folder. FILE is a CSV or Parquet file with the columns of the training, without the
    target; an npz file with an array x if the run was trained on arrays. The columns are encoded and
    standardised as in the training. For classes, the prediction and the probability of each class are
    written, one line per row.

    \b
    fedplus predict runs/first --party north new-patients.csv --keep patient
    fedplus predict runs/first --global new-patients.csv --out predictions.csv
    fedplus predict runs/first --new-party west.csv new-patients.csv --json
    """  # noqa: D301
    given = [
        name
        for name, is_given in (
            ("--party", party is not None),
            ("--global", use_global),
            ("--new-party", new_party is not None),
        )
        if is_given
    ]
    _require_one_run(run)
    if len(given) != 1:
        names = ", ".join(map(str, _first_parties(run)))
        require(
            False, "predict", " and ".join(given) or "none of these",
            "given one of --party NAME, --global and --new-party SAMPLES", f"Parties: {names}.",
        )  # fmt: skip
    require(
        steps is None or new_party is not None, "--steps", steps, "given together with --new-party"
    )
    is_known = out is None or out.suffix in (".csv", ".json")
    require(is_known, "--out", str(out), "a file that ends in .csv or .json")
    if new_party is None:
        model = load_model(run, party)
    else:
        model = join_run(run, new_party, steps=steps, rounds=rounds)
    require(rows.is_file(), "FILE", str(rows), "an existing file")
    data, kept = _read_rows(rows, model, keep)
    as_json = as_json or (out is not None and out.suffix == ".json")
    text = (_as_json if as_json else _as_csv)(model, data, kept)
    if out is None:
        print(text, end="")
    else:
        write_atomically(out, text.encode())
        print(out)


def _first_parties(run: Path) -> list[str]:
    """Return the first names of the parties of a run, for a message."""
    names = RunFolder(run).parties.get("names") or []
    return [*names[:8], *(["…"] if len(names) > 8 else [])]


def _require_one_run(path: Path) -> None:
    runs = list(iter_run_paths(path)) if path.is_dir() else []
    advice = f"Its runs: {', '.join(str(run) for run in runs[:4])}." if runs else ""
    got = "a folder of runs" if runs else f"{path}, which is none"
    require(runs == [path], "RUN", got, "one run folder", advice)


def _read_rows(path: Path, model: TrainedModel, keep: str) -> tuple[Any, Table]:
    """Return the data to predict for, and the columns that are copied into the output."""
    names = [name.strip() for name in keep.split(",") if name.strip()]
    if model.columns:
        table = read_table(path)
        for name in names:
            require(name in table, "--keep", name, f"columns of {path}: {', '.join(table)}")
        return table, {name: category_texts(table[name]) for name in names}
    require(not names, "--keep", keep, "left out: this run was trained on arrays")
    is_npz = path.suffix == ".npz"
    require(
        is_npz, "FILE", str(path), "an npz file with an array x: this run was trained on arrays"
    )
    arrays = read_npz(path)
    require("x" in arrays, str(path), f"the arrays {', '.join(arrays)}", "a file with an array x")
    return arrays["x"], {}


def _as_csv(model: TrainedModel, data: Any, kept: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns: list[Any] = list(kept.values())
    names = []
    if model.is_classifier:
        probabilities = model.predict_proba(data)
        columns.append(model.most_probable(probabilities))
        columns += [[f"{p:.6g}" for p in column] for column in probabilities.T]
        names = [f"p({name})" for name in model.class_names]
    else:
        columns.append([f"{value:.9g}" for value in np.ravel(model.predict(data))])
    writer.writerow([*kept, "prediction", *names])
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue()


def _as_json(model: TrainedModel, data: Any, kept: Table) -> str:
    probabilities = model.predict_proba(data) if model.is_classifier else None
    predictions = (
        model.predict(data) if probabilities is None else model.most_probable(probabilities)
    )
    content: dict[str, Any] = {"party": model.party, "predictions": predictions.tolist()}
    if kept:
        content["columns"] = {name: column.tolist() for name, column in kept.items()}
    if probabilities is not None:
        content["classes"] = list(model.class_names)
        content["probabilities"] = probabilities.tolist()
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
