"""Hostile replies: what they say does not reach a terminal, and their metrics and number do no harm."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from deployed import grid_of, zeros
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord

import fedplus as fp
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus
from fedplus.flower.replies import LARGEST, make_printable

PLUS = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)
ATTACKS = [
    "\x1b[2J\x1b[1;31mALL CLEAR\x1b[0m", "\x1b]0;title\x07text", "\x1b]8;;http://x\x1b\\link",
    "\x9b31mred", "a\rb", "a\x08\x08b", "a\u202eb", "\x00\x07", "\x1bc", "\x1bP+q\x1b\\x", "\ud800",
    "line\nRound 9: dropped the reply of node 1: forged",
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_escape_sequence_of_a_party_reaches_the_log_or_a_file(attack, tmp_path):
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())

    def tampered(reply):
        node = reply.metadata.src_node_id
        if node == 1:
            wrong = Message(Error(1, attack), reply_to=reply)
            wrong.metadata.__dict__["_src_node_id"] = node
            return wrong
        if node == 2:
            reply.content["arrays"] = ArrayRecord({attack: Array(np.zeros(1, np.float32))})
        if node == 3:
            reply.content["metrics"] = MetricRecord({attack: 1.0, "num-examples": 20})
        return reply

    logging.getLogger("flwr").addHandler(handler)
    try:
        strategy = FedPlus(PLUS, rounds=1, folder=tmp_path / "s")
        result = strategy.run(grid_of(PLUS, tmp_path, tamper=tampered), zeros())
    finally:
        logging.getLogger("flwr").removeHandler(handler)
    assert len(strategy.dropped) == 2
    names = "".join(result.train_metrics_clientapp[1])
    texts = [reason for _, _, reason in strategy.dropped] + [names]
    texts += [line for line in lines if "of node" in line]
    texts += [p.read_text() for p in (tmp_path / "s").glob("*.json*")]
    assert sum("of node 3" in line for line in lines) == (make_printable(attack) != attack)
    for text in texts:
        assert make_printable(text.replace("\n", " ")) == " ".join(text.split())
    assert not [line for line in lines if "dropped the reply" in line and "\n" in line]


@pytest.mark.parametrize("absurd", [1e308, -1e308, np.nan, np.inf, 2 * LARGEST, 2**62])
def test_absurd_metrics_are_left_out_of_averages_and_counted(absurd, tmp_path):
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    names = ("num-examples", "personal-score", "personal-loss")

    def tampered(reply):
        told = dict.fromkeys(names, 2)
        if reply.metadata.src_node_id == 2:
            told |= {"personal-score": absurd, "personal-loss": absurd}
        reply.content["metrics"] = MetricRecord(told)
        return reply

    logging.getLogger("flwr").addHandler(handler)
    try:
        strategy = FedPlus(PLUS, rounds=2, folder=tmp_path / "s")
        result = strategy.run(grid_of(PLUS, tmp_path, tamper=tampered), zeros())
    finally:
        logging.getLogger("flwr").removeHandler(handler)
    assert strategy.dropped == []  # Its model is taken all the same.
    told = result.train_metrics_clientapp[2]
    assert told["ignored-metrics"] == 2
    assert all(told[f"mean-{name}"] == 2 for name in names)
    assert sum("ignored metrics of node 2: 'personal-score' is" in line for line in lines) == 2
    last = RunFolder(tmp_path / "s").lines[-1]
    assert last["personal"]["mean"] == 2
    assert last["personal_score"] == [2, None, 2, 2, 2]
    json.loads((tmp_path / "s" / "status.json").read_text(), parse_constant=pytest.fail)


def test_a_flood_of_metrics_is_left_out(tmp_path):
    def tampered(reply):
        many = {f"m{i}": 1.0 for i in range(1000)} | {"x" * 1000: 1.0}
        reply.content["metrics"] = MetricRecord(many)
        return reply

    strategy = FedPlus(PLUS, rounds=1)
    result = strategy.run(grid_of(PLUS, tmp_path, tamper=tampered), zeros())
    assert len(result.train_metrics_clientapp[1]) < 10


def test_memory_stays_flat_under_a_stream_of_malformed_replies():
    """In a process of its own, as a server is: other tests would leave memory to be reused."""
    command = [sys.executable, str(Path(__file__).with_name("malformed_stream.py"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["dropped"] == 1000  # As many as are kept.
    assert found["grown"] < 10, f"{found['grown']:.0f} MB more after {found['replies']} replies"
