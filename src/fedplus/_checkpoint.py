"""Checkpoints: the state of a run in a safetensors file, written whole or not at all.

The header of the file holds a JSON text with the format, the round and the settings of the run, and the
SHA-256 of the whole file, computed with 64 zeros in its own place. The last two files are kept.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedplus._types import Host
from fedplus.check import SettingError
from fedplus.files import make_folder, write_atomically

FORMAT = "fedplus-checkpoint-2"
WITHOUT_HEADER = "fedplus-checkpoint-1"
"""The format before: its checksum does not cover the header. It is read, and never written."""
KEEP = 2
ABOUT, DIGEST = "fedplus", "fedplus-sha256"
"""Names in the header."""
BLANK = "0" * 64
"""Placeholder for the checksum while it is computed."""
FIELD = re.compile(f'"{DIGEST}":"([0-9a-f]{{64}})"'.encode())
CHUNK = 1 << 20


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

    make_folder(folder)
    for unfinished in folder.glob(".round-*.tmp"):  # Of a process that was killed while it saved.
        unfinished.unlink(missing_ok=True)
    arrays = {name: np.asarray(a, order="C") for name, a in checkpoint.arrays.items()}
    told = {"format": FORMAT, "round": checkpoint.round, "settings": checkpoint.settings}
    content = to_bytes(arrays, {ABOUT: json.dumps(told), DIGEST: BLANK})
    field = FIELD.search(content)
    assert field is not None
    digest = hashlib.sha256(content).hexdigest().encode()
    path = folder / f"round-{checkpoint.round:09d}.safetensors"
    view = memoryview(content)
    write_atomically(path, (view[: field.start(1)], digest, view[field.end(1) :]))
    until = [p for p in checkpoints_in(folder) if round_of_file(p) <= checkpoint.round]
    for other in checkpoints_in(folder):
        if other not in until[-KEEP:]:
            other.unlink()
    return path


def load(path: Path) -> Checkpoint:
    """Read a checkpoint: a file, or the newest of a folder.

    Raises:
        SettingError: The file is damaged, is none of ours, or there is none.
    """
    if path.is_dir():
        path = latest_checkpoint(path)
    if not path.is_file():
        raise SettingError(f"checkpoint must be a file or a folder of checkpoints, got {path}.")
    from safetensors import SafetensorError, safe_open

    try:
        is_whole = _is_whole(path)
        if is_whole is False:
            raise ValueError("its checksum does not fit")
        with safe_open(path, framework="numpy") as file:
            told = json.loads((file.metadata() or {}).get(ABOUT, "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        is_ours = told.get("format") == (WITHOUT_HEADER if is_whole is None else FORMAT)
        if is_ours and is_whole is None and told["sha256"] != _digest(arrays):
            raise ValueError("its checksum does not fit")
        if is_ours:
            return Checkpoint(told["round"], told["settings"], arrays)
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise SettingError(f"{path} is damaged ({error}). {_others(path)}") from error
    raise SettingError(
        f"{path} is damaged or not a checkpoint of fedplus (no {FORMAT!r} in its header). "
        f"{_others(path)}"
    )


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints of a folder, by round."""
    return sorted(folder.glob("round-*.safetensors"))


def round_of_file(path: Path) -> int:
    """The rounds that a checkpoint has done, by its name."""
    return int(path.stem.removeprefix("round-"))


def latest_round(folder: Path) -> int:
    """The rounds that the newest checkpoint of a folder has done; 0 if there is none."""
    found = checkpoints_in(folder)
    return round_of_file(found[-1]) if found else 0


def latest_checkpoint(folder: Path) -> Path:
    """The checkpoint of a folder that has gone furthest."""
    found = checkpoints_in(folder)
    if not found:
        raise SettingError(f"{folder} must hold a checkpoint, got none. Start without resume.")
    return found[-1]


def require_same(checkpoint: Checkpoint, settings: Mapping[str, Any], path: Path) -> None:
    """Require that the checkpoint was made by a run of the same settings.

    Raises:
        SettingError: It was not; the message lists every difference.
    """
    changed = differences(checkpoint.settings, settings)
    if changed:
        listed = "; ".join(f"its {n} is {was}, this run's is {now}" for n, was, now in changed)
        raise SettingError(
            f"{path} is of another run: {listed}. "
            "Resume with the same settings, or give another folder."
        )


def differences(
    saved: Mapping[str, Any], settings: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    """Return name, saved value and present value of each setting that differs, by name."""
    now = json.loads(json.dumps(settings))
    pairs = [(name, saved.get(name), now.get(name)) for name in sorted(now.keys() | saved.keys())]
    return [(name, was, is_now) for name, was, is_now in pairs if was != is_now]


def stable_repr(thing: object) -> str:
    """Return the representation without memory addresses, which differ between processes."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(thing))


def _is_whole(path: Path) -> bool | None:
    """Whether the file has the checksum that its header states; None if it states none."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= path.stat().st_size - 8:
            raise ValueError("its header is longer than the file")
        header = file.read(length)
        field = FIELD.search(header)
        if field is None:
            return None
        digest = hashlib.sha256(length.to_bytes(8, "little"))
        digest.update(header[: field.start(1)] + BLANK.encode() + header[field.end(1) :])
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest().encode() == field[1]


def _digest(arrays: Mapping[str, Host]) -> str:
    """Return the checksum of the format before, which covers the arrays only."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _others(path: Path) -> str:
    others = [p.name for p in checkpoints_in(path.parent) if p != path]
    return f"The one before it is still there: {others[-1]}." if others else "There is no other."
