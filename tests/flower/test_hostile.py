"""Hostile replies: what they say does not reach a terminal, and their metrics and number do no harm."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from deployed import grid_of, zeros
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict

import fedplus as fp
from fedplus.experiments.folder import RunFolder
from fedplus.flower import FedPlus, InProcessGrid
from fedplus.flower.replies import LARGEST, printable

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
    assert sum("of node 3" in line for line in lines) == (printable(attack) != attack)
    for text in texts:
        assert printable(text.replace("\n", " ")) == " ".join(text.split())
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


PARTIES, STREAM = 40, 160


def test_memory_stays_flat_under_a_stream_of_malformed_replies():
    """6,400 replies, a random half of them malformed: another number of good ones each round."""
    rng = np.random.default_rng(0)
    memory = []

    def train(message, context):
        w = rng.normal(size=4).astype(np.float32)
        arrays = {"bias": w[:1], "weight": w[1:].reshape(1, 3)}
        kind = rng.integers(8)
        if kind == 0:
            arrays["bias"] = arrays["bias"] * np.float32(np.nan)
        if kind == 1:
            arrays["weight"] = rng.normal(size=(1, int(rng.integers(4, 100_000)))).astype("f4")
        if kind == 2:
            arrays["x" * int(rng.integers(1, 100_000))] = w
        if kind == 3:
            return Message(Error(1, "y" * int(rng.integers(1, 1_000_000))), reply_to=message)
        record = ArrayRecord({name: Array(a) for name, a in arrays.items()})
        return Message(RecordDict({"arrays": record}), reply_to=message)

    class Watched(InProcessGrid):
        def get_node_ids(self):
            memory.append(resident())
            return super().get_node_ids()

    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    try:
        method = fp.presets.rfa(eta=0.1)
        strategy = FedPlus(method, rounds=STREAM)
        strategy.run(Watched(train, PARTIES), zeros())
    finally:
        logging.getLogger("flwr").setLevel(logging.INFO)
    assert len(strategy.dropped) == 1000
    begun = 20  # By then JAX has compiled its programs.
    grown = memory[-1] - memory[begun]
    assert grown < 10, f"{grown:.0f} MB more after {PARTIES * (STREAM - begun)} replies"


def resident():
    """Megabytes of memory that this process uses."""
    with Path("/proc/self/status").open() as file:
        (line,) = (line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
