"""``read_run``: a run folder as pandas data frames."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedplus._types import Host
from fedplus.check import SettingError, require
from fedplus.experiments.run_folder import (
    GLOBAL,
    MODELS,
    STATUS,
    RunFolder,
    is_run,
    party_file_name,
)

if TYPE_CHECKING:
    from pandas import DataFrame

OF_PARTIES = ("personal_score", "personal_loss", "global_score", "global_loss", "v_norm")


@dataclasses.dataclass(frozen=True)
class RunFrames:
    """A run, finished or not, ready to be looked at."""

    path: Path
    spec: dict[str, Any]
    env: dict[str, Any]
    status: dict[str, Any]
    rounds: "DataFrame"
    """A row an evaluated round: ``personal_mean``, ``global_worst``, ..., ``objective``."""
    parties: "DataFrame"
    """A row an evaluated round and party: scores, losses, ‖v_k‖."""
    figures: "DataFrame"
    """A row a round: weight change at aggregation, iterations, ..."""
    references: "DataFrame"
    """A row a party: samples, whether it is an outlier, local-only and majority-class score."""
    path_scores: "DataFrame"
    """A row an evaluated round, λ and party, where it was recorded."""

    def model(self, party: str | None = None) -> dict[str, Host]:
        """A party's arrays by name; without a party, the global model's."""
        from safetensors.numpy import load_file

        names = list(self.references["party"])
        require(
            party is None or party in names, "party", repr(party), f"one of {', '.join(names[:8])}"
        )
        file = self.path / (GLOBAL if party is None else f"{MODELS}/{party_file_name(party)}")
        require(file.exists(), "model", str(file), "there", "They are written in the end.")
        arrays: dict[str, Host] = load_file(file)
        return arrays


def read_run(path: str | Path) -> RunFrames:
    """Read a run folder into data frames; needs pandas."""
    try:
        import pandas as pd
    except ImportError as error:
        raise SettingError(
            "read_run needs pandas, which is not installed. "
            "Install it with: pip install 'fedplus[pandas]'."
        ) from error
    folder = RunFolder(Path(path))
    require(is_run(folder.path), "path", str(path), f"a run folder, with its {STATUS}")
    lines, who = folder.lines, folder.parties
    names = who["names"]
    rounds = [
        {"round": line["round"]}
        | {f"{w}_{k}": v for w in ("personal", "global") for k, v in line[w].items()}
        | ({"objective": line["objective"]} if "objective" in line else {})
        for line in lines
    ]
    parties = [
        pd.DataFrame({"round": line["round"], "party": names} | {k: line[k] for k in OF_PARTIES})
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
            "party": names, "train": who["train"], "test": who["test"],
            "outlier": [name in who["outliers"] for name in names],
            "local": who["local"], "majority": who["majority"],
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
