"""The party's side: its start, its pull, its saved model, and its federation."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict

import fedplus as fp
from fedplus.flower import Party
from fedplus.flower.in_process_grid import set_sender
from fedplus.flower.local_rule import rule_to_message
from fedplus.flower.records import to_record
from fedplus.layers import Layer, Layers
from linear_federation import zeros

METHOD = fp.presets.fedcomed_plus(eta=0.1, sigma=0.5, delta=0.2)

set_sender()


def message(w=None, federation="f", round_=1, method=METHOD):
    config = {"server-round": round_, "fedplus-federation": federation}
    config |= rule_to_message(method)
    arrays = to_record(zeros() if w is None else w)
    content = RecordDict({"arrays": arrays, "config": ConfigRecord(config)})
    return Message(content, 1, MessageType.TRAIN)


def context():
    return Context(1, 1, {"partition-id": 0}, RecordDict(), {})


def model(value):
    return {name: np.full_like(a, value) for name, a in zeros().items()}


def test_start_anchor_and_pull_follow_the_formulas(tmp_path):
    """θ is a soft threshold, the start depends on λ, and the pull on κ."""
    first = Party(message(), context(), tmp_path)
    assert all((first.start[n] == 0).all() for n in first.start)
    first.reply(model(1.0))
    second = Party(message(model(0.5), round_=2), context(), tmp_path)
    assert second.start["bias"][0] == 1.0  # With λ = 0 it is the party's own model.
    assert second.anchor["bias"][0] == pytest.approx(0.5 + (0.5 - 0.2))
    kappa = 1 / (1 + 0.1 * 0.5)
    pulled = second.pull(model(2.0))
    assert pulled["weight"][0, 0] == pytest.approx(kappa * 2.0 + (1 - kappa) * 0.8)
    fedavg = Party(message(model(0.5), method=fp.presets.fedavg(eta=0.1)), context(), tmp_path)
    assert fedavg.start["bias"][0] == 0.5  # With λ = 1 it is the global model.


def test_a_restarted_party_loads_its_model_from_disk_and_not_from_flowers_context(tmp_path):
    """Flower copies its context to places where others may read it."""
    same_context = context()
    Party(message(), same_context, tmp_path / "a").reply(model(1.0), extra={"count": np.array(7)})
    restarted = Party(message(round_=2), context(), tmp_path / "a")
    assert restarted.own_model["bias"][0] == 1.0
    assert restarted.extra["count"].shape == ()  # Like the counter of BatchNorm.
    assert restarted.extra["count"] == 7
    assert len(same_context.state) == 0
    assert Party(message(round_=2), same_context, tmp_path / "lost").own_model["bias"][0] == 0.0


def test_a_model_of_another_federation_is_not_used(tmp_path):
    same_context = context()
    Party(message(), same_context, tmp_path).reply(model(1.0))
    other = Party(message(model(0.5), "other"), same_context, tmp_path)
    assert other.own_model["bias"][0] == 0.5
    assert Party(message(), context(), tmp_path).own_model["bias"][0] == 1.0


def test_the_previous_file_is_used_if_the_last_is_damaged(tmp_path):
    Party(message(), context(), tmp_path).reply(model(1.0))
    Party(message(round_=2), context(), tmp_path).reply(model(2.0))
    newest = sorted((tmp_path / "f").iterdir())[-1]
    content = bytearray(newest.read_bytes())
    content[-3] ^= 1
    newest.write_bytes(bytes(content))
    assert Party(message(round_=3), context(), tmp_path).own_model["bias"][0] == 1.0


def test_a_repeated_round_starts_from_the_same_model(tmp_path):
    """The server was killed before it got the reply."""
    for round_ in (1, 2, 3):
        Party(message(round_=round_), context(), tmp_path).reply(model(float(round_)))
    assert Party(message(round_=3), context(), tmp_path).own_model["bias"][0] == 2.0
    assert Party(message(round_=4), context(), tmp_path).own_model["bias"][0] == 3.0


def test_a_party_continues_with_a_later_model_if_the_server_went_back(tmp_path):
    """The server was restored from an old backup, and the party has only later models."""
    for round_ in (8, 9):
        Party(message(round_=round_), context(), tmp_path).reply(model(float(round_)))
    back = Party(message(round_=3), context(), tmp_path)
    assert back.own_model["bias"][0] == 8.0
    back.reply(model(3.0))
    assert Party(message(round_=4), context(), tmp_path).own_model["bias"][0] == 3.0


def test_a_party_does_not_start_anew_if_no_file_can_be_read(tmp_path):
    Party(message(), context(), tmp_path).reply(model(1.0))
    (path,) = (tmp_path / "f").iterdir()
    path.write_bytes(b"of another version")
    with pytest.raises(fp.SettingError, match=r"^The checkpoint in .* cannot be read\."):
        Party(message(round_=2), context(), tmp_path)
    assert path.read_bytes() == b"of another version"


def test_a_diverged_model_is_neither_saved_nor_sent(tmp_path):
    party = Party(message(), context(), tmp_path)
    party.reply(model(1.0))
    with pytest.raises(fp.SettingError, match="the party's model must be finite"):
        party.reply(model(np.nan))
    assert Party(message(round_=2), context(), tmp_path).own_model["bias"][0] == 1.0


def losses(before, after):
    return {"start-loss": before, "end-loss": after}


@pytest.mark.parametrize("after", [np.nan, np.inf, 3.1])
def test_a_model_whose_loss_rose_much_is_neither_saved_nor_sent(after, tmp_path):
    party = Party(message(), context(), tmp_path)
    with pytest.raises(fp.SettingError, match=r"end-loss must be at most 3 .*steps diverged"):
        party.reply(model(1.0), losses(2.0, after))
    assert Party(message(round_=2), context(), tmp_path).own_model["bias"][0] == 0.0


def test_a_loss_may_rise_up_to_that_of_the_first_round_and_by_half(tmp_path):
    """A good model may become worse for some rounds, while w̃ pulls at it."""
    Party(message(), context(), tmp_path).reply(model(1.0), losses(2.0, 0.1))
    Party(message(round_=2), context(), tmp_path).reply(model(2.0), losses(0.1, 2.9))
    party = Party(message(round_=3), context(), tmp_path)
    with pytest.raises(fp.SettingError, match=r"at most 3 \(start-loss was 0\.1\), got 3\.1\."):
        party.reply(model(3.0), losses(0.1, 3.1))
    party.reply(model(3.0), losses(-4.0, -3.0))
    assert Party(message(round_=4), context(), tmp_path).own_model["bias"][0] == 3.0


def test_one_loss_alone_is_refused(tmp_path):
    party = Party(message(), context(), tmp_path)
    with pytest.raises(fp.SettingError, match="both start-loss and end-loss, or neither, got end-"):
        party.reply(model(1.0), {"end-loss": 1.0})


@pytest.mark.parametrize(
    ("arrays", "error"),
    [
        ({"bias": np.zeros(1)}, "arrays must be the parameters bias, weight"),
        ({"bias": np.zeros(2), "weight": np.zeros((1, 3))}, "of shape"),
    ],
)
def test_a_model_unlike_the_servers_is_refused(arrays, error, tmp_path):
    party = Party(message(), context(), tmp_path)
    with pytest.raises(fp.SettingError, match=error):
        party.reply(arrays)


def test_the_default_folder_is_named_after_the_partition(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPLUS_STATE", str(tmp_path))
    Party(message(), context()).reply(model(1.0))
    assert [p.name for p in tmp_path.iterdir()] == ["partition-0"]


def test_a_message_is_hardly_larger_than_a_model(tmp_path):
    """It has 4·d bytes in each direction, and a small constant."""
    big = {"w": np.zeros(250_000, np.float32)}
    request = message(big)
    reply = Party(request, context(), tmp_path).reply(big, {"num-examples": 3})
    for sent in (request, reply):
        assert sent.content["arrays"].count_bytes() <= 4 * 250_000 + 1000


def test_a_party_continues_with_its_newest_model_if_the_server_repeats_rounds(tmp_path):
    for round_, value in ((5, 1.0), (6, 2.0), (7, 3.0), (2, 4.0)):
        Party(message(round_=round_), context(), tmp_path).reply(model(value))
    assert Party(message(round_=3), context(), tmp_path).own_model["bias"][0] == 4.0


def test_local_steps_are_limited_by_number_and_by_time(tmp_path, monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr("fedplus.flower.party.time.monotonic", lambda: next(clock))
    assert list(Party(message(), context(), tmp_path).local_steps(3)) == [0, 1, 2]
    party = Party(message(), context(), tmp_path)  # Each call of the clock adds a second.
    assert list(party.local_steps(seconds=4)) == [0, 1, 2, 3]
    assert list(Party(message(), context(), tmp_path).local_steps(2, seconds=4)) == [0, 1]
    assert list(Party(message(), context(), tmp_path).local_steps(5, seconds=0.5)) == [0]
    for limits in ({}, {"steps": 0}, {"seconds": -1}):
        with pytest.raises(fp.SettingError, match="must be"):
            party.local_steps(**limits)


LAYOUT = [("bias", 1), ("weight", 3)]
FEDREP = fp.presets.fedrep(LAYOUT, eta=0.1, private=["bias"], head_steps=3)


def shared_message(method):
    return message({"weight": zeros()["weight"]}, method=method)


def test_steps_that_never_reach_the_second_layers_are_refused(tmp_path):
    """FedRep trains the head for head_steps, then the body: a round needs more steps than that."""
    party = Party(shared_message(FEDREP), context(), tmp_path, initial=zeros())
    with pytest.raises(fp.SettingError, match=r"^steps must be more than 3, .* got 3 per round\."):
        party.local_steps(3)
    assert len(list(party.local_steps(4))) == 4
    assert len(list(Party(message(), context(), tmp_path / "other").local_steps(1))) == 1


def test_a_time_limit_before_the_second_layers_is_logged(tmp_path, monkeypatch, log_lines):
    clock = iter(range(1000))  # Each call of the clock adds a second.
    monkeypatch.setattr("fedplus.flower.party.time.monotonic", lambda: next(clock))
    party = Party(shared_message(FEDREP), context(), tmp_path, initial=zeros())
    assert len(list(party.local_steps(seconds=4))) == 4
    assert log_lines == []
    party = Party(shared_message(FEDREP), context(), tmp_path, initial=zeros())
    assert len(list(party.local_steps(seconds=3))) == 3
    (line,) = log_lines
    assert "Round 1: the time was enough for 3 steps, and some layers" in line


def test_layers_that_are_never_trained_need_no_steps(tmp_path):
    """A frozen layer may begin late."""
    parts = {"bias": Layer(eta=0.0, begin_step=9), "*": Layer()}
    method = Layers(parts, LAYOUT).method(eta=0.1)
    assert list(Party(message(method=method), context(), tmp_path).local_steps(1)) == [0]


@pytest.mark.parametrize("name", ["../elsewhere", "/tmp/elsewhere", "", "a/b"])
def test_the_name_of_a_federation_cannot_lead_to_another_folder(name, tmp_path):
    with pytest.raises(fp.SettingError, match="the federation's name must be letters and digits"):
        Party(message(federation=name), context(), tmp_path / "state")
    assert list(tmp_path.iterdir()) == []


def test_a_saved_model_of_another_shape_is_not_used(tmp_path):
    same_context = context()
    Party(message(), same_context, tmp_path / "a").reply(model(1.0), extra={"count": np.array(7)})
    wider = {"bias": np.zeros(2, np.float32)}
    for folder in ("a", "lost"):
        other = Party(message(wider, round_=2), same_context, tmp_path / folder)
        assert (other.own_model["bias"].shape, other.extra) == ((2,), {})
