"""Damaged state files: every single-bit flip and every truncation is detected."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from deployed import grid_of, zeros
from safetensors.numpy import save as to_safetensors

import fedplus as fp
from fedplus._checkpoint import WITHOUT_HEADER, _digest, checkpoints_in, load
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus
from fedplus.flower.restore import latest_intact_checkpoint

PLUS = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)


@pytest.fixture
def said():
    """Collect what Flower's logger says."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("flwr").addHandler(handler)
    yield lines
    logging.getLogger("flwr").removeHandler(handler)


@pytest.fixture
def run(tmp_path):
    """Run three rounds of a small federation; return its folder."""
    FedPlus(PLUS, rounds=3, folder=tmp_path / "server").run(grid_of(PLUS, tmp_path), zeros())
    return tmp_path


def folder_of(run: Path, who: str) -> Path:
    if who == "server":
        return run / "server" / "checkpoint"
    (federation,) = (run / "party-0").iterdir()
    return federation


def flipped(content: bytes):
    """Return every version of the content in which one bit is changed."""
    for i in range(len(content)):
        for bit in range(8):
            yield content[:i] + bytes([content[i] ^ (1 << bit)]) + content[i + 1 :]


@pytest.mark.parametrize("who", ["server", "party"])
def test_every_bit_flip_is_detected_and_the_file_before_is_used(run, who, said):
    before, newest = checkpoints_in(folder_of(run, who))
    content, expected = newest.read_bytes(), load(before)
    wrong: dict[str, int] = {}
    for spoilt in flipped(content):
        newest.write_bytes(spoilt)
        said.clear()
        try:
            found = latest_intact_checkpoint(newest.parent)
        except Exception as error:
            wrong[type(error).__name__] = wrong.get(type(error).__name__, 0) + 1
            continue
        if found.round != expected.round or not any("is damaged" in line for line in said):
            wrong["accepted"] = wrong.get("accepted", 0) + 1
    assert wrong == {}, f"of {8 * len(content)} flips"


@pytest.mark.parametrize("who", ["server", "party"])
def test_every_truncation_is_detected(run, who):
    before, newest = checkpoints_in(folder_of(run, who))
    content, expected = newest.read_bytes(), load(before)
    for length in range(len(content)):
        newest.write_bytes(content[:length])
        assert latest_intact_checkpoint(newest.parent).round == expected.round
    newest.write_bytes(content + b"\0")
    assert latest_intact_checkpoint(newest.parent).round == expected.round


@pytest.mark.parametrize("name", ["parties.json", "rounds.jsonl", "status.json"])
def test_damaged_records_do_not_stop_a_server_whose_checkpoint_is_whole(run, name, said):
    path = run / "server" / name
    whole = FedPlus(PLUS, rounds=4)
    whole.run(grid_of(PLUS, run / "other"), zeros())
    for rounds, spoilt in enumerate((b"", b"[]", b'{"names": 3}', b"\xff\xfe", b'{"names'), 4):
        path.write_bytes(spoilt)
        strategy = FedPlus(PLUS, rounds=rounds, folder=run / "server")
        strategy.run(grid_of(PLUS, run), zeros())
        if rounds == 4:
            np.testing.assert_array_equal(strategy.state.w_global, whole.state.w_global)
    found = RunFolder(run / "server")
    assert found.parties["names"] == ["1", "2", "3", "4", "5"]
    assert found.parties["train"] == [20] * 5
    assert found.status["round"] == 8
    if name == "parties.json":
        assert any("parties.json cannot be read" in line for line in said)
        assert [line["round"] for line in found.lines] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_every_bit_flip_of_the_records_is_survived(run):
    from fedplus.experiments.files import truncate_rounds
    from fedplus.flower.run_log import DeploymentLog

    about = {"better": "higher"}
    for name in ("parties.json", "rounds.jsonl"):
        path = run / "server" / name
        content = path.read_bytes()
        for i, spoilt in enumerate(flipped(content)):
            if i % 7:  # Each reading writes synced files: every seventh flip, all bits in turn.
                continue
            path.write_bytes(spoilt)
            DeploymentLog(run / "server", about, 3, [1, 2, 3, 4, 5])
            (run / "server" / "rounds.jsonl").write_bytes(content if "rounds" in name else b"")
        path.write_bytes(content)
        assert truncate_rounds(run / "server" / "rounds.jsonl", 3) is not None


def test_a_checkpoint_of_the_format_before_is_read_and_the_next_is_of_the_new_one(run):
    """Its first model stood for parties that had never replied: these no longer count."""
    folder = folder_of(run, "server")
    saved = load(folder)
    for path in checkpoints_in(folder):
        path.unlink()
    arrays = saved.arrays | {"first": np.zeros(4, np.float32)}
    arrays["nodes"] = np.append(arrays["nodes"], np.uint64(77))
    arrays["models"] = np.concatenate([arrays["models"], np.zeros((1, 4), np.float32)])
    kept = {name: saved.settings[name] for name in ("shapes", "federation", "skipped")}
    told = {"format": WITHOUT_HEADER, "round": 3, "settings": kept, "sha256": _digest(arrays)}
    old = folder / "round-000000003.safetensors"
    old.write_bytes(to_safetensors(arrays, {"fedplus": json.dumps(told)}))
    strategy = FedPlus(PLUS, rounds=4, folder=run / "server")
    strategy.run(grid_of(PLUS, run), zeros())
    assert sorted(strategy.state.models) == [1, 2, 3, 4, 5]
    assert strategy.state.federation == saved.settings["federation"]
    before, newest = checkpoints_in(folder)
    assert before == old
    assert b"fedplus-checkpoint-2" in newest.read_bytes()
