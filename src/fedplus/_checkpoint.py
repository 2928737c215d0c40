"""A run's state on disk: one safetensors file a checkpoint, written whole or not at all.

The file's header carries a JSON text: the format, the round, the settings of the run, and a checksum of
everything else. The last two are kept.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedplus._check import SettingError
from fedplus._types import Host
from fedplus._write import write_atomically

FORMAT = "fedplus-checkpoint-1"
KEEP = 2


class Checkpoint(NamedTuple):
    """What a run needs to go on."""

    round: int
    """Rounds done."""
    settings: dict[str, Any]
    """What the run was asked for; it can go on only with the same."""
    arrays: dict[str, Host]


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint; the last one but one goes once this one is safely there.

    So do later ones, which are of rounds that are done anew.
    """
    from safetensors.numpy import save as to_bytes

    folder.mkdir(parents=True, exist_ok=True)
    for unfinished in folder.glob(".round-*.tmp"):  # Of a process that was killed while it saved.
        unfinished.unlink(missing_ok=True)
    arrays = {name: np.asarray(a, order="C") for name, a in checkpoint.arrays.items()}
    told = {
        "format": FORMAT,
        "round": checkpoint.round,
        "settings": checkpoint.settings,
        "sha256": _digest(arrays),
    }
    path = folder / f"round-{checkpoint.round:09d}.safetensors"
    write_atomically(path, to_bytes(arrays, {"fedplus": json.dumps(told)}))
    until = [p for p in saved_in(folder) if round_of(p) <= checkpoint.round]
    for other in saved_in(folder):
        if other not in until[-KEEP:]:
            other.unlink()
    return path


def load(path: Path) -> Checkpoint:
    """Read a checkpoint: a file, or the newest of a folder.

    Raises:
        SettingError: The file is damaged, is none of ours, or there is none.
    """
    if path.is_dir():
        path = newest(path)
    if not path.is_file():
        raise SettingError(f"checkpoint must be a file or a folder of checkpoints, got {path}.")
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            told = json.loads((file.metadata() or {}).get("fedplus", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise SettingError(f"{path} is damaged ({error}). {_others(path)}") from error
    if told.get("format") != FORMAT:
        raise SettingError(f"{path} is not a checkpoint of fedplus (no {FORMAT!r} in its header).")
    if told["sha256"] != _digest(arrays):
        raise SettingError(f"{path} is damaged (its checksum does not fit). {_others(path)}")
    return Checkpoint(told["round"], told["settings"], arrays)


def saved_in(folder: Path) -> list[Path]:
    """The checkpoints of a folder, by round."""
    return sorted(folder.glob("round-*.safetensors"))


def round_of(path: Path) -> int:
    """The rounds that a checkpoint has done, by its name."""
    return int(path.stem.removeprefix("round-"))


def rounds_saved(folder: Path) -> int:
    """The rounds that the newest checkpoint of a folder has done; 0 if there is none."""
    found = saved_in(folder)
    return round_of(found[-1]) if found else 0


def newest(folder: Path) -> Path:
    """The checkpoint of a folder that has gone furthest."""
    found = saved_in(folder)
    if not found:
        raise SettingError(f"{folder} must hold a checkpoint, got none. Start without resume.")
    return found[-1]


def require_same(checkpoint: Checkpoint, settings: Mapping[str, Any], path: Path) -> None:
    """Require that the checkpoint was made by a run of the same settings."""
    now = json.loads(json.dumps(settings))
    for name in sorted(now.keys() | checkpoint.settings.keys()):
        was, wanted = checkpoint.settings.get(name), now.get(name)
        if was != wanted:
            raise SettingError(
                f"{path} is of another run: its {name} is {was}, this run's is {wanted}. "
                "Resume with the same settings, or give another folder."
            )


def _digest(arrays: Mapping[str, Host]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _others(path: Path) -> str:
    others = [p.name for p in saved_in(path.parent) if p != path]
    return f"The one before it is still there: {others[-1]}." if others else "There is no other."
