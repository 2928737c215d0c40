"""Each party has one vote from its first accepted reply on, even if its key was replaced."""

import shutil

import numpy as np
import pytest
from flwr.app import ConfigRecord

import fedplus as fp
from fedplus._checkpoint_file import load
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus, InProcessGrid, Party
from fedplus.flower.records import SECRET, hash_secret
from linear_federation import PARTIES, make_app, make_grid, zeros

PLUS = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)


def run(grid, folder, rounds, **settings):
    strategy = FedPlus(PLUS, rounds=rounds, folder=folder / "server", **settings)
    strategy.run(grid, zeros())
    return strategy


def test_parties_that_never_replied_have_no_vote(tmp_path):
    """Three of five parties fail: w̃ is that of a federation of the other two."""
    app = make_app(PLUS, tmp_path)

    def failing(message, context):
        if context.node_id > 2:
            raise RuntimeError("no data")
        return app(message, context)

    strategy = run(InProcessGrid(failing, PARTIES), tmp_path, 10)
    grid = make_grid(PLUS, tmp_path / "two")
    grid.connected = [1, 2]
    without_failing = run(grid, tmp_path / "two", 10)
    assert sorted(strategy.state.models) == [1, 2]
    norm, expected = (float(np.linalg.norm(s.state.w_global)) for s in (strategy, without_failing))
    assert norm == pytest.approx(expected, rel=1e-5)


def test_a_party_counts_from_its_first_accepted_reply(tmp_path):
    grid = make_grid(PLUS, tmp_path)
    grid.connected = [1, 2, 3]
    assert sorted(run(grid, tmp_path, 2).state.models) == [1, 2, 3]
    grid.connected = [1, 2, 3, 5]
    assert sorted(run(grid, tmp_path, 3).state.models) == [1, 2, 3, 5]


def grid_with_ids(folder, ids):
    """Return a grid of the same parties, with these node ids."""
    return InProcessGrid(make_app(PLUS, folder), ids)


def test_a_party_with_a_new_key_keeps_its_one_vote_and_its_place_in_the_run_folder(tmp_path):
    run(grid_with_ids(tmp_path, [1, 2, 3, 4, 5]), tmp_path, 2)
    strategy = run(grid_with_ids(tmp_path, [1, 2, 30, 4, 5]), tmp_path, 4)
    same_keys = run(grid_with_ids(tmp_path / "w", [1, 2, 3, 4, 5]), tmp_path / "w", 4)
    assert sorted(strategy.state.models) == [1, 2, 4, 5, 30]
    assert strategy.dropped.total == 0
    np.testing.assert_allclose(strategy.state.w_global, same_keys.state.w_global, atol=1e-6)
    run_folder = RunFolder(tmp_path / "server")
    assert run_folder.parties["names"] == ["1", "2", "30", "4", "5"]
    assert {len(line["v_norm"]) for line in run_folder.lines} == {5}
    continued = run(grid_with_ids(tmp_path, [1, 2, 30, 4, 5]), tmp_path, 5)
    assert sorted(continued.state.models) == [1, 2, 4, 5, 30]


def test_a_party_that_lost_its_key_and_its_disk_can_be_forgotten(tmp_path):
    run(grid_with_ids(tmp_path, [1, 2, 3, 4, 5]), tmp_path, 2)
    (tmp_path / "party-2").rename(tmp_path / "lost")
    with_two_votes = run(grid_with_ids(tmp_path, [1, 2, 30, 4, 5]), tmp_path, 3)
    assert 3 in with_two_votes.state.models
    strategy = run(grid_with_ids(tmp_path, [1, 2, 30, 4, 5]), tmp_path, 4, forget=["3"])
    assert sorted(strategy.state.models) == [1, 2, 4, 5, 30]


@pytest.mark.parametrize("invalid", [["x"], ["-1"], [1.5], ["1 2"], [2**64]])
def test_only_node_ids_can_be_forgotten(invalid):
    with pytest.raises(fp.SettingError, match="forget must be node ids, got"):
        FedPlus(PLUS, rounds=1, forget=invalid)


def test_the_party_saves_its_secret_and_the_server_only_its_hash(tmp_path):
    replies, requests = [], []
    grid = make_grid(PLUS, tmp_path, lambda reply: replies.append(reply) or reply)
    push = grid.push_messages
    grid.push_messages = lambda messages: push(requests.extend(messages) or messages)
    strategy = run(grid, tmp_path, 3)
    secrets = {m.metadata.src_node_id: m.content["config"][SECRET] for m in replies}
    assert len(set(secrets.values())) == PARTIES
    for k in range(PARTIES):
        (folder,) = (tmp_path / f"party-{k}").iterdir()
        assert load(folder).settings["secret"] == secrets[k + 1]
    assert strategy.state.identities == {n: hash_secret(s) for n, s in secrets.items()}
    text = "".join(str(dict(m.content["config"])) for m in requests)
    text += "".join(p.read_bytes().decode("latin-1") for p in (tmp_path / "server").rglob("*.*"))
    assert not [secret for secret in secrets.values() if secret in text]


@pytest.mark.parametrize("claim", ["0" * 64, "identity", "short", 7])
def test_a_party_cannot_replace_another_without_its_secret(claim, tmp_path):
    """It tries a guess, the hash, or the short identity that the server sends to new nodes."""
    run(make_grid(PLUS, tmp_path), tmp_path, 2)
    known = load(tmp_path / "server" / "checkpoint").settings["identities"]["3"]
    secret = {"identity": known, "short": known[:16]}.get(claim, claim)

    def tamper(reply):
        if reply.metadata.src_node_id == 1:
            reply.content["config"] = ConfigRecord({SECRET: secret})
        return reply

    grid = make_grid(PLUS, tmp_path, tamper)
    grid.connected = [1, 2, 4, 5]
    strategy = run(grid, tmp_path, 3)
    assert sorted(strategy.state.models) == [1, 2, 3, 4, 5]
    assert strategy.state.identities[3] == known


def grid_with_shared_folder(folder):
    """Return a grid in which parties 0 and 1 use one state folder."""
    app = make_app(PLUS, folder)

    def train(message, context):
        if context.node_id == 2:
            context.node_config["partition-id"] = 0
        return app(message, context)

    return InProcessGrid(train, 3)


def test_a_second_party_on_the_same_folder_is_refused(tmp_path):
    """This holds in the first round, in later ones, and if the other party is not in the cohort."""
    strategy = run(grid_with_shared_folder(tmp_path), tmp_path, 3)
    assert sorted(strategy.state.models) == [1, 3]
    dropped = strategy.dropped.recent
    assert [(reply.round, reply.node) for reply in dropped] == [(1, 2), (2, 2), (3, 2)]
    assert all("is used by node 1" in reply.reason for reply in dropped)
    with_cohort = FedPlus(PLUS, rounds=12, cohort=1, folder=tmp_path / "server")
    with_cohort.run(grid_with_shared_folder(tmp_path), zeros())
    assert {reply.node for reply in with_cohort.dropped.recent} == {2}
    assert sorted(with_cohort.state.models) == [1, 3]


def test_a_copied_folder_gives_no_second_vote(tmp_path):
    """A node with a copy of another party's folder has that party's secret."""
    run(grid_with_ids(tmp_path, [1, 2]), tmp_path, 2)
    shutil.copytree(tmp_path / "party-0", tmp_path / "party-2")
    grid = grid_with_ids(tmp_path, [1, 2, 9])

    def push_without_others(messages):
        for message in messages:
            message.content["config"].pop("fedplus-others", None)
        return push(messages)

    push, grid.push_messages = grid.push_messages, push_without_others
    strategy = run(grid, tmp_path, 3)
    assert sorted(strategy.state.models) == [1, 2]
    assert "it has the secret of node 1" in strategy.dropped.recent[0].reason


def test_two_parties_cannot_train_in_one_folder_at_the_same_time(tmp_path):
    from test_party import context, message, model

    first = Party(message(), context(), tmp_path)
    other = context()
    other.node_id = 2
    with pytest.raises(fp.SettingError, match="must be used by one party at a time"):
        Party(message(), other, tmp_path)
    again = Party(message(), context(), tmp_path)  # The same party, after a failed round.
    del first
    again.reply(model(1.0))
    Party(message(round_=2), other, tmp_path)
