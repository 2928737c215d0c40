"""Hostile replies: their text does not reach a terminal, and their metrics and number do no harm."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord

import fedplus as fp
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus
from fedplus.flower.replies import MAX_DROPPED, MAX_METRIC, make_printable
from linear_federation import make_grid, zeros

PLUS = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)
ATTACKS = [
    "\x1b[2J\x1b[1;31mALL CLEAR\x1b[0m", "\x1b]0;title\x07text", "\x1b]8;;http://x\x1b\\link",
    "\x9b31mred", "a\rb", "a\x08\x08b", "a\u202eb", "\x00\x07", "\x1bc", "\x1bP+q\x1b\\x", "\ud800",
    "line\nRound 9: dropped the reply of node 1: forged",
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_escape_sequences_of_a_party_do_not_reach_the_log_or_a_file(attack, tmp_path, log_lines):
    def tamper(reply):
        node = reply.metadata.src_node_id
        if node == 1:
            error = Message(Error(1, attack), reply_to=reply)
            error.metadata.__dict__["_src_node_id"] = node
            return error
        if node == 2:
            reply.content["arrays"] = ArrayRecord({attack: Array(np.zeros(1, np.float32))})
        if node == 3:
            reply.content["metrics"] = MetricRecord({attack: 1.0, "num-examples": 20})
        return reply

    strategy = FedPlus(PLUS, rounds=1, folder=tmp_path / "s")
    result = strategy.run(make_grid(PLUS, tmp_path, tamper), zeros())
    assert strategy.dropped.total == 2
    metric_names = "".join(result.train_metrics_clientapp[1])
    texts = [dropped.reason for dropped in strategy.dropped.recent] + [metric_names]
    texts += [line for line in log_lines if "of node" in line]
    texts += [p.read_text() for p in (tmp_path / "s").glob("*.json*")]
    assert sum("of node 3" in line for line in log_lines) == (make_printable(attack) != attack)
    for text in texts:
        assert make_printable(text.replace("\n", " ")) == " ".join(text.split())
    assert not [line for line in log_lines if "dropped the reply" in line and "\n" in line]


@pytest.mark.parametrize("absurd", [1e308, -1e308, np.nan, np.inf, 2 * MAX_METRIC, 2**62])
def test_absurd_metrics_are_counted_and_not_averaged(absurd, tmp_path, log_lines):
    names = ("num-examples", "personal-score", "personal-loss")

    def tamper(reply):
        metrics = dict.fromkeys(names, 2)
        if reply.metadata.src_node_id == 2:
            metrics |= {"personal-score": absurd, "personal-loss": absurd}
        reply.content["metrics"] = MetricRecord(metrics)
        return reply

    strategy = FedPlus(PLUS, rounds=2, folder=tmp_path / "s")
    result = strategy.run(make_grid(PLUS, tmp_path, tamper), zeros())
    assert strategy.dropped.total == 0  # The party's model is accepted.
    metrics = result.train_metrics_clientapp[2]
    assert metrics["ignored-metrics"] == 2
    assert all(metrics[f"mean-{name}"] == 2 for name in names)
    assert sum("ignored metrics of node 2: 'personal-score' is" in line for line in log_lines) == 2
    last = RunFolder(tmp_path / "s").lines[-1]
    assert last["personal"]["mean"] == 2
    assert last["personal_score"] == [2, None, 2, 2, 2]
    json.loads((tmp_path / "s" / "status.json").read_text(), parse_constant=pytest.fail)


def test_too_many_metrics_are_ignored(tmp_path):
    def tamper(reply):
        metrics = {f"m{i}": 1.0 for i in range(1000)} | {"x" * 1000: 1.0}
        reply.content["metrics"] = MetricRecord(metrics)
        return reply

    strategy = FedPlus(PLUS, rounds=1)
    result = strategy.run(make_grid(PLUS, tmp_path, tamper), zeros())
    assert len(result.train_metrics_clientapp[1]) < 10


def test_malformed_replies_do_not_increase_memory():
    """The server needs a process of its own: it could reuse the memory of other tests."""
    command = [sys.executable, str(Path(__file__).with_name("malformed_stream.py"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["recent"] == MAX_DROPPED == 1000
    assert result["growth"] < 10, f"{result['growth']} MB more after {result['replies']} replies"
