"""The file format of checkpoints: ``save`` and ``load`` the state of a run as a safetensors file.

This module only reads and writes files; the simulator and the Flower server share it. To resume a
simulation, call ``simulate(..., checkpoint=FOLDER, resume=True)``. ``simulation/checkpointing.py``
decides when a simulation is saved, and restores its state.

A file is written whole or not at all. Its header holds a JSON text with the format, the round and the
settings of the run, and the SHA-256 of the whole file, computed with 64 zeros in its own place. A
folder keeps the last two checkpoints.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import SettingError
from fedplus.files import make_folder, write_atomically

FORMAT = "fedplus-checkpoint-2"
OLD_FORMAT = "fedplus-checkpoint-1"
"""The previous format, whose checksum does not cover the header. It is read but never written."""
KEEP = 2
"""The number of checkpoints that a folder keeps."""
METADATA_KEY, DIGEST_KEY = "fedplus", "fedplus-sha256"
"""Names in the header."""
BLANK_DIGEST = "0" * 64
"""Placeholder for the checksum while it is computed."""
DIGEST_FIELD = re.compile(f'"{DIGEST_KEY}":"([0-9a-f]{{64}})"'.encode())
CHUNK_BYTES = 1 << 20


class Checkpoint(NamedTuple):
    """The content of a checkpoint: everything that is needed to resume a run."""

    round: int
    """The number of completed rounds."""
    settings: dict[str, Any]
    """The settings of the run; only a run with the same settings can resume from it."""
    arrays: dict[str, NumpyArray]
    """The state and the records of the run, by name."""


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint and return its path.

    Once it is on disk, older checkpoints are deleted except for the previous one, and so are
    checkpoints of later rounds, which this run repeats.
    """
    from safetensors.numpy import save as to_bytes

    make_folder(folder)
    for unfinished in folder.glob(
        ".round-*.tmp"
    ):  # Left by a process that was killed while saving.
        unfinished.unlink(missing_ok=True)
    arrays = {name: np.asarray(a, order="C") for name, a in checkpoint.arrays.items()}
    metadata = {"format": FORMAT, "round": checkpoint.round, "settings": checkpoint.settings}
    content = to_bytes(arrays, {METADATA_KEY: json.dumps(metadata), DIGEST_KEY: BLANK_DIGEST})
    field = DIGEST_FIELD.search(content)
    assert field is not None
    digest = hashlib.sha256(content).hexdigest().encode()
    path = folder / f"round-{checkpoint.round:09d}.safetensors"
    view = memoryview(content)
    write_atomically(path, (view[: field.start(1)], digest, view[field.end(1) :]))
    not_later = [p for p in list_checkpoints(folder) if round_of_file(p) <= checkpoint.round]
    for other in list_checkpoints(folder):
        if other not in not_later[-KEEP:]:
            other.unlink()
    return path


def load(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Args:
        path: A checkpoint file, or a folder whose newest checkpoint is read.

    Raises:
        SettingError: The file is missing, is damaged or is not a checkpoint of fedplus.
    """
    if path.is_dir():
        path = latest_checkpoint(path)
    if not path.is_file():
        raise SettingError(f"checkpoint must be a file or a folder of checkpoints, got {path}.")
    from safetensors import SafetensorError, safe_open

    try:
        is_intact = _is_intact(path)
        if is_intact is False:
            raise ValueError("its checksum does not match")
        with safe_open(path, framework="numpy") as file:
            metadata = json.loads((file.metadata() or {}).get(METADATA_KEY, "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        is_ours = metadata.get("format") == (OLD_FORMAT if is_intact is None else FORMAT)
        if is_ours and is_intact is None and metadata["sha256"] != _digest(arrays):
            raise ValueError("its checksum does not match")
        if is_ours:
            return Checkpoint(metadata["round"], metadata["settings"], arrays)
    except (SafetensorError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise SettingError(f"{path} is damaged ({error}). {_fallback_hint(path)}") from error
    raise SettingError(
        f"{path} is damaged or not a checkpoint of fedplus (no {FORMAT!r} in its header). "
        f"{_fallback_hint(path)}"
    )


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, ordered by round."""
    return sorted(folder.glob("round-*.safetensors"))


def round_of_file(path: Path) -> int:
    """Return the number of completed rounds, which the name of a checkpoint states."""
    return int(path.stem.removeprefix("round-"))


def latest_round(folder: Path) -> int:
    """Return the completed rounds of a folder's newest checkpoint, or 0 if there is none."""
    paths = list_checkpoints(folder)
    return round_of_file(paths[-1]) if paths else 0


def latest_checkpoint(folder: Path) -> Path:
    """Return the newest checkpoint of a folder.

    Raises:
        SettingError: The folder has no checkpoint.
    """
    paths = list_checkpoints(folder)
    if not paths:
        raise SettingError(f"{folder} must hold a checkpoint, got none. Start without resume.")
    return paths[-1]


def require_same_settings(checkpoint: Checkpoint, settings: Mapping[str, Any], path: Path) -> None:
    """Require that the checkpoint was written by a run with the same settings.

    Raises:
        SettingError: Some settings differ; the message lists all of them.
    """
    changed = changed_settings(checkpoint.settings, settings)
    if changed:
        listed = "; ".join(
            f"its {name} is {old}, this run's is {new}" for name, old, new in changed
        )
        raise SettingError(
            f"{path} belongs to another run: {listed}. "
            "Resume with the same settings, or give another folder."
        )


def changed_settings(
    saved: Mapping[str, Any], settings: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    """Return name, saved value and present value of each setting that differs, sorted by name."""
    present = json.loads(json.dumps(settings))
    names = sorted(present.keys() | saved.keys())
    triples = [(name, saved.get(name), present.get(name)) for name in names]
    return [(name, old, new) for name, old, new in triples if old != new]


def stable_repr(value: object) -> str:
    """Return ``repr(value)`` without memory addresses, which differ between processes.

    The settings of an Optax optimizer are not in its ``repr``, so its first updates follow.
    """
    from fedplus._optimizer_check import optimizers_of, show_updates

    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return "; ".join([text, *map(show_updates, optimizers_of(value))])


def _is_intact(path: Path) -> bool | None:
    """Return whether the file has the checksum in its header, or None if the header has none."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= path.stat().st_size - 8:
            raise ValueError("its header is longer than the file")
        header = file.read(length)
        field = DIGEST_FIELD.search(header)
        if field is None:
            return None
        digest = hashlib.sha256(length.to_bytes(8, "little"))
        digest.update(header[: field.start(1)] + BLANK_DIGEST.encode() + header[field.end(1) :])
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest().encode() == field[1]


def _digest(arrays: Mapping[str, NumpyArray]) -> str:
    """Return the checksum of the previous format, which covers the arrays only."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _fallback_hint(path: Path) -> str:
    """Return a sentence that names the checkpoint to use instead of a damaged one."""
    others = [p.name for p in list_checkpoints(path.parent) if p != path]
    if not others:
        return "There is no other checkpoint."
    return f"The checkpoint before it is {others[-1]}."
