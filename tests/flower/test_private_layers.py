"""Private layers never leave a party: no message, file or log of the server has them."""

import json
import logging

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto
from private_entries import contains

import fedplus as fp
from fedplus._checkpoint_file import load
from fedplus.flower import FedPlus, InProcessGrid, Party
from fedplus.flower.in_process_grid import set_sender
from fedplus.flower.local_rule import rule_to_message
from fedplus.flower.records import to_record

LAYOUT = (("body/weight", 40), ("head/bias", 3), ("head/weight", 60))
METHOD = fp.presets.fedper(LAYOUT, eta=0.1)
SHAPES = {"body/weight": (8, 5), "head/bias": (3,), "head/weight": (20, 3)}
PARTIES = 3

set_sender()


def random_model(seed):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def shared(arrays):
    return {"body/weight": arrays["body/weight"]}


class Recorder:
    """A grid in this process that keeps the bytes of all messages."""

    def __init__(self, folder):
        self.requests, self.replies, self.models, app = [], [], {}, ClientApp()

        @app.train()
        def train(message, context):
            k = context.node_config["partition-id"]
            party = Party(message, context, folder / str(k), initial=random_model(k))
            assert set(party.global_model) == {"body/weight"}
            rng = np.random.default_rng((k, party.round))
            w = party.start
            for _ in range(2):
                steps = {n: rng.normal(size=a.shape).astype(np.float32) for n, a in w.items()}
                w = party.pull({n: w[n] - party.eta * steps[n] for n in w})
                self.models.setdefault(k, [party.start]).append(w)
            return party.reply(w, {"num-examples": 7, "personal-score": 0.5})

        self.grid = InProcessGrid(app, PARTIES, tamper=self.record)
        push = self.grid.push_messages

        def record_requests(messages):
            messages = list(messages)
            self.requests += [to_bytes(message) for message in messages]
            return push(messages)

        self.grid.push_messages = record_requests

    def record(self, reply):
        self.replies.append(to_bytes(reply))
        return reply


def to_bytes(message):
    """Return what goes over the network: the message and its content, byte by byte."""
    return message_to_proto(message).SerializeToString()


@pytest.mark.parametrize("given", [lambda model: model, shared])
@pytest.mark.parametrize("join", ["current", "first"])
def test_no_message_file_or_log_of_the_server_has_private_entries(given, join, tmp_path, caplog):
    """The server is given the whole model or its shared part; the search finds shared entries."""
    logging.getLogger("flwr").propagate = True
    caplog.set_level(logging.DEBUG)
    recorder = Recorder(tmp_path / "parties")
    first = random_model(99)
    strategy = FedPlus(METHOD.replace(join=join), rounds=3, folder=tmp_path / "server")
    result = strategy.run(recorder.grid, given(first))
    assert strategy.dropped.total == 0
    assert set(result.arrays) == {"body/weight"}
    files = [path.read_bytes() for path in (tmp_path / "server").rglob("*") if path.is_file()]
    log = caplog.text.encode()
    assert len(recorder.requests) == len(recorder.replies) == 3 * PARTIES
    assert len(files) >= 5
    assert b"Round 3" in log
    received = [*recorder.replies, *recorder.requests, *files, log]
    private = [first, *(model for models in recorder.models.values() for model in models)]
    for model in private:
        for name in ("head/bias", "head/weight"):
            assert not any(contains(content, model[name]) for content in received)
    last = recorder.models[0][-1]["body/weight"]
    assert any(contains(content, last) for content in recorder.replies)
    assert any(contains(content, strategy.state.w_global) for content in files)
    assert load(tmp_path / "server" / "checkpoint").arrays["w_global"].shape == (40,)


def test_messages_shrink_by_the_private_layers(tmp_path):
    sizes = {}
    for name, method in {"all": fp.presets.fedavg(eta=0.1), "shared": METHOD}.items():
        recorder = Recorder(tmp_path / name)
        recorder.grid._app = echo(tmp_path / name)
        FedPlus(method, rounds=1).run(recorder.grid, random_model(0))
        sizes[name] = len(recorder.requests[0]), len(recorder.replies[0])
    for before, after in zip(sizes["all"], sizes["shared"], strict=True):
        assert before - after > 4 * 63 - 150  # The names of private layers take some bytes.


def echo(folder):
    def train(message, context):
        party = Party(message, context, folder / str(context.node_id), initial=random_model(0))
        return party.reply(party.start)

    return train


def message(method, round_=1, w=None):
    config = {"server-round": round_, "fedplus-federation": "f"} | rule_to_message(method)
    arrays = to_record(shared(random_model(5) if w is None else w))
    content = RecordDict({"arrays": arrays, "config": ConfigRecord(config)})
    return Message(content, 1, MessageType.TRAIN)


def context():
    return Context(1, 1, {"partition-id": 0}, RecordDict(), {})


@pytest.mark.parametrize("initial", [None, {"head/bias": np.zeros(3, np.float32)}])
def test_a_new_party_needs_initial_private_parameters(initial, tmp_path):
    with pytest.raises(fp.SettingError, match=r"^initial must be .*head/bias, head/weight in") as e:
        Party(message(METHOD), context(), tmp_path, initial=initial)
    assert "\n" not in str(e.value)


def test_a_party_keeps_its_private_parameters(tmp_path):
    """They are needed once, survive a restart, and a repeated round starts from the same ones."""
    own, model = random_model(1), random_model(2)
    party = Party(message(METHOD), context(), tmp_path, initial=own)
    for name in ("head/bias", "head/weight"):
        np.testing.assert_array_equal(party.start[name], own[name])
        assert party.pulls[name].kappa == 1
    reply = party.reply(model)
    assert set(reply.content["arrays"]) == {"body/weight"}
    with pytest.raises(fp.SettingError, match="arrays must be the parameters"):
        Party(message(METHOD, 2), context(), tmp_path).reply(shared(model))
    for _ in range(2):
        restarted = Party(message(METHOD, 2), context(), tmp_path)
        assert set(restarted.own_model) == set(SHAPES)
        for name in ("head/bias", "head/weight"):
            np.testing.assert_array_equal(restarted.start[name], model[name])
        np.testing.assert_array_equal(
            restarted.start["body/weight"], random_model(5)["body/weight"]
        )  # λ = 1
        restarted.reply(random_model(3))


def test_the_pull_of_a_party_follows_the_settings_of_each_layer(tmp_path):
    """A layer may have its own η and κ, be frozen, or be trained in some steps only."""
    from fedplus.layers import Layer, Layers

    parts = {
        "head/bias": Layer(eta=0.0),
        "head/*": Layer(fp.Zero(), sigma=2.0, eta=0.1),
        "*": Layer(sigma=1.0, begin_step=1, end_step=2),
    }
    method = Layers(parts, LAYOUT).method(eta=0.2)
    content = RecordDict({
        "arrays": to_record(random_model(5)),
        "config": ConfigRecord(
            {"server-round": 1, "fedplus-federation": "f"} | rule_to_message(method)
        ),
    })  # fmt: skip
    party = Party(Message(content, 1, MessageType.TRAIN), context(), tmp_path)
    assert party.eta == 0.2
    assert party.kappa["body/weight"] == pytest.approx(1 / 1.2)
    w = party.start
    for step in range(3):
        before, w = w, party.pull({name: a + 1 for name, a in w.items()})
        np.testing.assert_array_equal(w["head/bias"], before["head/bias"])
        kappa = 1 / 1.2  # Half of the step, as η is half of party.eta.
        anchor = party.anchor["head/weight"]
        expected = kappa * (before["head/weight"] + 0.5) + (1 - kappa) * anchor
        np.testing.assert_allclose(w["head/weight"], expected, atol=1e-6)
        moved = 1 / 1.2 if step == 1 else 0.0
        np.testing.assert_allclose(w["body/weight"] - before["body/weight"], moved, atol=1e-6)


def test_arrays_that_do_not_fit_the_layout_are_refused():
    grid = InProcessGrid(lambda message, context: message, PARTIES)
    strategy = FedPlus(METHOD, rounds=1)
    with pytest.raises(fp.SettingError, match=r"arrays must be the parameters of the method's"):
        strategy.run(grid, {"other": np.zeros(3, np.float32)})
    with pytest.raises(fp.SettingError, match=r"arrays\['body/weight'\] must be of 40 entries"):
        strategy.run(grid, {"body/weight": np.zeros(3, np.float32)})


def test_the_settings_of_a_federation_are_readable_and_name_the_private_layers(tmp_path):
    recorder = Recorder(tmp_path / "parties")
    FedPlus(METHOD, rounds=1, folder=tmp_path / "s").run(recorder.grid, random_model(0))
    settings = load(tmp_path / "s" / "checkpoint").settings["method"]
    assert settings["private"] == ["head/bias", "head/weight"]
    assert settings["lam"] == {"head/*": 0.0, "*": 1.0}
    assert settings["psi"] == {"head/*": "Zero()", "*": "Anchor()"}
    assert "0x" not in json.dumps(settings)


@pytest.mark.parametrize("setting", ["lam", "sigma"])
def test_private_layers_have_neither_lam_nor_sigma(setting):
    """In the simulator they would move towards the first model, which a deployment does not have."""
    expected = r"^[λσ] of private layers must be 0, got 0\.5\. .*fedplus\.Layers"
    with pytest.raises(fp.SettingError, match=expected):
        fp.FedPlus(fp.LocalSolve(fp.Zero(), eta=0.1, **{setting: 0.5}), private=METHOD.private)
    with pytest.raises(fp.SettingError, match="of private layers must be 0"):
        METHOD.replace(**{setting: fp.schedules.WarmUp(rounds=3, first=0.5)})
