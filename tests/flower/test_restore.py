"""Damaged state files: every single-bit flip and every truncation is detected."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save as to_safetensors

import fedplus as fp
from fedplus._checkpoint_file import OLD_FORMAT, _digest, list_checkpoints, load
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus
from fedplus.flower.restore import latest_intact_checkpoint
from linear_federation import make_grid, zeros

PLUS = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)


@pytest.fixture
def run(tmp_path):
    """Run three rounds of a small federation and return its folder."""
    FedPlus(PLUS, rounds=3, folder=tmp_path / "server").run(make_grid(PLUS, tmp_path), zeros())
    return tmp_path


def checkpoint_folder(run: Path, owner: str) -> Path:
    if owner == "server":
        return run / "server" / "checkpoint"
    (folder,) = (run / "party-0").iterdir()
    return folder


def bit_flips(content: bytes):
    """Yield every version of the content in which one bit is changed."""
    for i in range(len(content)):
        for bit in range(8):
            yield content[:i] + bytes([content[i] ^ (1 << bit)]) + content[i + 1 :]


@pytest.mark.parametrize("owner", ["server", "party"])
def test_every_bit_flip_is_detected_and_the_previous_file_is_used(run, owner, log_lines):
    previous, newest = list_checkpoints(checkpoint_folder(run, owner))
    content, expected = newest.read_bytes(), load(previous)
    failures: Counter[str] = Counter()
    for damaged in bit_flips(content):
        newest.write_bytes(damaged)
        log_lines.clear()
        try:
            checkpoint = latest_intact_checkpoint(newest.parent)
        except Exception as error:
            failures[type(error).__name__] += 1
            continue
        is_logged = any("is damaged" in line for line in log_lines)
        if checkpoint.round != expected.round or not is_logged:
            failures["accepted"] += 1
    assert failures == {}, f"of {8 * len(content)} flips"


@pytest.mark.parametrize("owner", ["server", "party"])
def test_every_truncation_is_detected(run, owner):
    previous, newest = list_checkpoints(checkpoint_folder(run, owner))
    content, expected = newest.read_bytes(), load(previous)
    for length in range(len(content)):
        newest.write_bytes(content[:length])
        assert latest_intact_checkpoint(newest.parent).round == expected.round
    newest.write_bytes(content + b"\0")
    assert latest_intact_checkpoint(newest.parent).round == expected.round


@pytest.mark.parametrize("name", ["parties.json", "rounds.jsonl", "status.json"])
def test_a_damaged_run_folder_does_not_stop_a_server_with_an_intact_checkpoint(
    run, name, log_lines
):
    path = run / "server" / name
    undamaged = FedPlus(PLUS, rounds=4)
    undamaged.run(make_grid(PLUS, run / "other"), zeros())
    for rounds, damaged in enumerate((b"", b"[]", b'{"names": 3}', b"\xff\xfe", b'{"names'), 4):
        path.write_bytes(damaged)
        strategy = FedPlus(PLUS, rounds=rounds, folder=run / "server")
        strategy.run(make_grid(PLUS, run), zeros())
        if rounds == 4:
            np.testing.assert_array_equal(strategy.state.w_global, undamaged.state.w_global)
    run_folder = RunFolder(run / "server")
    assert run_folder.parties["names"] == ["1", "2", "3", "4", "5"]
    assert run_folder.parties["train"] == [20] * 5
    assert run_folder.status["round"] == 8
    if name == "parties.json":
        assert any("parties.json cannot be read" in line for line in log_lines)
        assert [line["round"] for line in run_folder.lines] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_run_log_accepts_every_bit_flip_of_the_run_folder(run):
    from fedplus.experiments.run_folder_files import truncate_rounds
    from fedplus.flower.run_log import RunLog

    about = {"better": "higher"}
    for name in ("parties.json", "rounds.jsonl"):
        path = run / "server" / name
        content = path.read_bytes()
        for i, damaged in enumerate(bit_flips(content)):
            if i % 7:  # Each reading is slow, because it writes and syncs files.
                continue
            path.write_bytes(damaged)
            RunLog(run / "server", about, 3, [1, 2, 3, 4, 5])
            (run / "server" / "rounds.jsonl").write_bytes(content if "rounds" in name else b"")
        path.write_bytes(content)
        assert truncate_rounds(run / "server" / "rounds.jsonl", 3) is not None


def test_a_checkpoint_of_the_old_format_is_read_and_the_next_has_the_new_format(run):
    """The old format has the first model for parties that have never replied; they are removed."""
    folder = checkpoint_folder(run, "server")
    saved = load(folder)
    for path in list_checkpoints(folder):
        path.unlink()
    arrays = saved.arrays | {"first": np.zeros(4, np.float32)}
    arrays["nodes"] = np.append(arrays["nodes"], np.uint64(77))
    arrays["models"] = np.concatenate([arrays["models"], np.zeros((1, 4), np.float32)])
    settings = {name: saved.settings[name] for name in ("shapes", "federation", "skipped")}
    header = {"format": OLD_FORMAT, "round": 3, "settings": settings, "sha256": _digest(arrays)}
    old = folder / "round-000000003.safetensors"
    old.write_bytes(to_safetensors(arrays, {"fedplus": json.dumps(header)}))
    strategy = FedPlus(PLUS, rounds=4, folder=run / "server")
    strategy.run(make_grid(PLUS, run), zeros())
    assert sorted(strategy.state.models) == [1, 2, 3, 4, 5]
    assert strategy.state.federation == saved.settings["federation"]
    previous, newest = list_checkpoints(folder)
    assert previous == old
    assert b"fedplus-checkpoint-2" in newest.read_bytes()
