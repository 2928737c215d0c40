"""A party's side: where it starts, what pulls it, what it keeps and for which federation."""

import numpy as np
import pytest
from deployed import zeros
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict

import fedplus as fp
from fedplus.flower import Party
from fedplus.flower.in_process_grid import set_sender
from fedplus.flower.local_rule import rule_message
from fedplus.flower.records import to_record

METHOD = fp.presets.fedcomed_plus(eta=0.1, sigma=0.5, delta=0.2)


set_sender()


def message(w=None, federation="f", round_=1, method=METHOD):
    content = RecordDict(
        {
            "arrays": to_record(zeros() if w is None else w),
            "config": ConfigRecord(
                {
                    **rule_message(method.local),
                    "server-round": round_,
                    "fedplus-federation": federation,
                }
            ),
        }
    )
    return Message(content, 1, MessageType.TRAIN)


def context():
    return Context(1, 1, {"partition-id": 0}, RecordDict(), {})


def model(value):
    return {name: np.full_like(a, value) for name, a in zeros().items()}


def test_where_it_starts_and_what_pulls_it(tmp_path):
    """By the formulas: θ by soft thresholding, the start by λ, the pull by κ."""
    first = Party(message(), context(), tmp_path)
    assert all((first.start[n] == 0).all() for n in first.start)
    first.reply(model(1.0))
    second = Party(message(model(0.5), round_=2), context(), tmp_path)
    assert second.start["bias"][0] == 1.0  # λ = 0: its own model
    assert second.anchor["bias"][0] == pytest.approx(0.5 + (0.5 - 0.2))
    kappa = 1 / (1 + 0.1 * 0.5)
    pulled = second.pull(model(2.0))
    assert pulled["weight"][0, 0] == pytest.approx(kappa * 2.0 + (1 - kappa) * 0.8)
    common = Party(message(model(0.5), method=fp.presets.fedavg(eta=0.1)), context(), tmp_path)
    assert common.start["bias"][0] == 0.5  # λ = 1: the global model


def test_a_restart_finds_the_model_on_disk_and_nothing_is_in_flowers_context(tmp_path):
    """Flower copies its context to where others may read it."""
    kept = context()
    Party(message(), kept, tmp_path / "a").reply(model(1.0), extra={"count": np.array(7)})
    restarted = Party(message(round_=2), context(), tmp_path / "a")
    assert restarted.own["bias"][0] == 1.0
    assert restarted.extra["count"].shape == ()  # As BatchNorm's counter is.
    assert restarted.extra["count"] == 7
    assert len(kept.state) == 0
    assert Party(message(round_=2), kept, tmp_path / "lost").own["bias"][0] == 0.0


def test_a_model_of_another_federation_is_not_used(tmp_path):
    kept = context()
    Party(message(), kept, tmp_path).reply(model(1.0))
    other = Party(message(model(0.5), "other"), kept, tmp_path)
    assert other.own["bias"][0] == 0.5
    assert Party(message(), context(), tmp_path).own["bias"][0] == 1.0


def test_a_damaged_file_gives_way_to_the_one_before(tmp_path):
    Party(message(), context(), tmp_path).reply(model(1.0))
    Party(message(round_=2), context(), tmp_path).reply(model(2.0))
    newest = sorted((tmp_path / "f").iterdir())[-1]
    content = bytearray(newest.read_bytes())
    content[-3] ^= 1
    newest.write_bytes(bytes(content))
    assert Party(message(round_=3), context(), tmp_path).own["bias"][0] == 1.0


def test_a_round_asked_for_again_starts_where_it_started(tmp_path):
    """The server was killed before it had the reply."""
    for round_ in (1, 2, 3):
        Party(message(round_=round_), context(), tmp_path).reply(model(float(round_)))
    assert Party(message(round_=3), context(), tmp_path).own["bias"][0] == 2.0
    assert Party(message(round_=4), context(), tmp_path).own["bias"][0] == 3.0


def test_a_server_that_went_further_back_is_followed(tmp_path):
    """It was restored from an old copy: the party has only later models, and goes on from one."""
    for round_ in (8, 9):
        Party(message(round_=round_), context(), tmp_path).reply(model(float(round_)))
    back = Party(message(round_=3), context(), tmp_path)
    assert back.own["bias"][0] == 8.0
    back.reply(model(3.0))
    assert Party(message(round_=4), context(), tmp_path).own["bias"][0] == 3.0


def test_where_nothing_can_be_read_nothing_is_begun_anew(tmp_path):
    Party(message(), context(), tmp_path).reply(model(1.0))
    (kept,) = (tmp_path / "f").iterdir()
    kept.write_bytes(b"of another version")
    with pytest.raises(fp.SettingError, match="folder must be one with a whole checkpoint"):
        Party(message(round_=2), context(), tmp_path)
    assert kept.read_bytes() == b"of another version"


def test_what_diverged_is_neither_kept_nor_sent(tmp_path):
    party = Party(message(), context(), tmp_path)
    party.reply(model(1.0))
    with pytest.raises(fp.SettingError, match="the party's model must be finite"):
        party.reply(model(np.nan))
    assert Party(message(round_=2), context(), tmp_path).own["bias"][0] == 1.0


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"bias": np.zeros(1)}, "arrays must be the parameters bias, weight"),
        ({"bias": np.zeros(2), "weight": np.zeros((1, 3))}, "of shape"),
    ],
)
def test_another_model_than_the_servers_is_refused(arrays, said, tmp_path):
    party = Party(message(), context(), tmp_path)
    with pytest.raises(fp.SettingError, match=said):
        party.reply(arrays)


def test_its_folder_is_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDPLUS_STATE", str(tmp_path))
    Party(message(), context()).reply(model(1.0))
    assert [p.name for p in tmp_path.iterdir()] == ["partition-0"]


def test_a_message_is_a_model_and_little_more(tmp_path):
    """d · 4 bytes each way, and a small constant."""
    big = {"w": np.zeros(250_000, np.float32)}
    asked = message(big)
    reply = Party(asked, context(), tmp_path).reply(big, {"num-examples": 3})
    for one in (asked, reply):
        assert one.content["arrays"].count_bytes() <= 4 * 250_000 + 1000


def test_a_server_restored_from_a_backup_counts_back_and_the_party_goes_on(tmp_path):
    for round_, value in ((5, 1.0), (6, 2.0), (7, 3.0), (2, 4.0)):
        Party(message(round_=round_), context(), tmp_path).reply(model(value))
    assert Party(message(round_=3), context(), tmp_path).own["bias"][0] == 4.0


def test_a_party_works_for_so_many_steps_or_so_long(tmp_path, monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr("fedplus.flower.party.time.monotonic", lambda: next(clock))
    assert list(Party(message(), context(), tmp_path).work(3)) == [0, 1, 2]
    party = Party(message(), context(), tmp_path)  # A second passes at each look.
    assert list(party.work(seconds=4)) == [0, 1, 2, 3]
    assert list(Party(message(), context(), tmp_path).work(2, seconds=4)) == [0, 1]
    assert list(Party(message(), context(), tmp_path).work(5, seconds=0.5)) == [0]
    for wrong in ({}, {"steps": 0}, {"seconds": -1}):
        with pytest.raises(fp.SettingError, match="must be"):
            party.work(**wrong)


@pytest.mark.parametrize("name", ["../elsewhere", "/tmp/elsewhere", "", "a/b"])
def test_a_federation_cannot_name_another_folder(name, tmp_path):
    with pytest.raises(fp.SettingError, match="the federation's name must be letters and digits"):
        Party(message(federation=name), context(), tmp_path / "state")
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_another_shape_is_not_used_wherever_it_was_kept(tmp_path):
    kept = context()
    Party(message(), kept, tmp_path / "a").reply(model(1.0), extra={"count": np.array(7)})
    wider = {"bias": np.zeros(2, np.float32)}
    for folder in ("a", "lost"):
        other = Party(message(wider, round_=2), kept, tmp_path / folder)
        assert (other.own["bias"].shape, other.extra) == ((2,), {})
