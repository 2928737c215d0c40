"""Reads a run folder into pandas data frames (``fedplus.read_run``)."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedplus._types import NumpyArray
from fedplus.check import require
from fedplus.experiments.run_folder import (
    GLOBAL,
    MODELS,
    STATUS,
    RunFolder,
    is_run,
    party_file_name,
)
from fedplus.extras import import_extra

if TYPE_CHECKING:
    from pandas import DataFrame

PARTY_COLUMNS = ("personal_score", "personal_loss", "global_score", "global_loss", "v_norm")


@dataclasses.dataclass(frozen=True)
class RunFrames:
    """The content of a run folder as data frames; the run need not be finished."""

    path: Path
    spec: dict[str, Any]
    env: dict[str, Any]
    status: dict[str, Any]
    rounds: "DataFrame"
    """One row per evaluated round: ``personal_mean``, ``global_worst``, ..., ``objective``."""
    parties: "DataFrame"
    """One row per evaluated round and party: scores, losses, ‖v_k‖."""
    figures: "DataFrame"
    """One row per round: weight change at aggregation, iterations, ..."""
    references: "DataFrame"
    """One row per party: samples, outlier or not, scores of local training and majority class."""
    path_scores: "DataFrame"
    """One row per evaluated round, λ and party; empty unless ``path`` was set."""

    def model(self, party: str | None = None) -> dict[str, NumpyArray]:
        """Return the arrays of a party's model by parameter name.

        Args:
            party: Name of the party; by default, the global model is returned.

        Raises:
            SettingError: The party is unknown, or the run has not written its models yet.
        """
        from safetensors.numpy import load_file

        names = list(self.references["party"])
        require(
            party is None or party in names, "party", repr(party), f"one of {', '.join(names[:8])}"
        )
        file = self.path / (GLOBAL if party is None else f"{MODELS}/{party_file_name(party)}")
        require(
            file.exists(), "model", str(file), "an existing file", "A run writes its models last."
        )
        arrays: dict[str, NumpyArray] = load_file(file)
        return arrays


def read_run(path: str | Path) -> RunFrames:
    """Read a run folder into pandas data frames.

    Args:
        path: The run folder, of a finished, running or stopped run.

    Returns:
        The data frames.

    Raises:
        SettingError: The path is no run folder, a file is damaged, or pandas is not installed.

    E.g. ``read_run("runs/demo/fedavg-0").rounds.plot("round", "personal_mean")``.
    """
    pd = import_extra("pandas", "pandas", "read_run")
    folder = RunFolder(Path(path))
    require(is_run(folder.path), "path", str(path), f"a run folder, with its {STATUS}")
    lines, about_parties = folder.lines, folder.parties
    names = about_parties["names"]
    rounds = [
        {"round": line["round"]}
        | {f"{which}_{k}": v for which in ("personal", "global") for k, v in line[which].items()}
        | ({"objective": line["objective"]} if "objective" in line else {})
        for line in lines
    ]
    parties = [
        pd.DataFrame({"round": line["round"], "party": names} | {k: line[k] for k in PARTY_COLUMNS})
        for line in lines
    ]
    paths = [
        pd.DataFrame({"round": line["round"], "lambda": lam, "party": names, "score": scores})
        for line in lines
        if "path" in line
        for lam, scores in zip(line["path"]["lambda"], line["path"]["score"], strict=True)
    ]
    references = pd.DataFrame(
        {
            "party": names, "train": about_parties["train"], "test": about_parties["test"],
            "outlier": [name in about_parties["outliers"] for name in names],
            "local": about_parties["local"], "majority": about_parties["majority"],
        }
    )  # fmt: skip
    empty = {"round": pd.Series(dtype=int), "party": pd.Series(dtype=str)}
    figures = [pd.DataFrame(line["figures"]) for line in lines]
    return RunFrames(
        folder.path, folder.spec, folder.env, folder.status,
        rounds=pd.DataFrame(rounds),
        parties=pd.concat(parties, ignore_index=True) if parties else pd.DataFrame(empty),
        figures=pd.concat(figures, ignore_index=True) if figures else pd.DataFrame({"round": []}),
        references=references,
        path_scores=pd.concat(paths, ignore_index=True) if paths else pd.DataFrame(empty),
    )  # fmt: skip
