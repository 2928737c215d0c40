"""Who counts: parties from their first accepted reply, each once, also after its key was replaced."""

import numpy as np
import pytest
from deployed import PARTIES, app_of, grid_of, zeros
from flwr.app import ConfigRecord

import fedplus as fp
from fedplus._checkpoint import load
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus, InProcessGrid, Party
from fedplus.flower.records import SECRET, hash_secret

PLUS = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)


def run(grid, folder, rounds, **settings):
    strategy = FedPlus(PLUS, rounds=rounds, folder=folder / "server", **settings)
    strategy.run(grid, zeros())
    return strategy


def test_parties_that_never_replied_have_no_vote(tmp_path):
    """Three of five parties fail: w̃ is that of the other two alone."""
    app = app_of(PLUS, tmp_path)

    def failing(message, context):
        if context.node_id > 2:
            raise RuntimeError("no data")
        return app(message, context)

    found = run(InProcessGrid(failing, PARTIES), tmp_path, 10)
    two = grid_of(PLUS, tmp_path / "two")
    two.connected = [1, 2]
    alone = run(two, tmp_path / "two", 10)
    assert sorted(found.state.models) == [1, 2]
    norm, expected = (float(np.linalg.norm(s.state.w_global)) for s in (found, alone))
    assert norm == pytest.approx(expected, rel=1e-5)


def test_a_party_counts_from_its_first_accepted_reply(tmp_path):
    grid = grid_of(PLUS, tmp_path)
    grid.connected = [1, 2, 3]
    assert sorted(run(grid, tmp_path, 2).state.models) == [1, 2, 3]
    grid.connected = [1, 2, 3, 5]
    assert sorted(run(grid, tmp_path, 3).state.models) == [1, 2, 3, 5]


def rotated(folder, ids):
    """The same parties, with these node ids."""
    return InProcessGrid(app_of(PLUS, folder), ids)


def test_a_party_with_a_new_key_keeps_its_one_vote_and_its_records(tmp_path):
    run(rotated(tmp_path, [1, 2, 3, 4, 5]), tmp_path, 2)
    found = run(rotated(tmp_path, [1, 2, 30, 4, 5]), tmp_path, 4)
    whole = run(rotated(tmp_path / "w", [1, 2, 3, 4, 5]), tmp_path / "w", 4)
    assert sorted(found.state.models) == [1, 2, 4, 5, 30]
    assert found.dropped == []
    np.testing.assert_allclose(found.state.w_global, whole.state.w_global, atol=1e-6)
    records = RunFolder(tmp_path / "server")
    assert records.parties["names"] == ["1", "2", "30", "4", "5"]
    assert {len(line["v_norm"]) for line in records.lines} == {5}
    again = run(rotated(tmp_path, [1, 2, 30, 4, 5]), tmp_path, 5)
    assert sorted(again.state.models) == [1, 2, 4, 5, 30]


def test_a_party_that_lost_key_and_disk_is_forgotten_by_its_operator(tmp_path):
    run(rotated(tmp_path, [1, 2, 3, 4, 5]), tmp_path, 2)
    (tmp_path / "party-2").rename(tmp_path / "lost")
    two_votes = run(rotated(tmp_path, [1, 2, 30, 4, 5]), tmp_path, 3)
    assert 3 in two_votes.state.models
    found = run(rotated(tmp_path, [1, 2, 30, 4, 5]), tmp_path, 4, forget=["3"])
    assert sorted(found.state.models) == [1, 2, 4, 5, 30]


@pytest.mark.parametrize("wrong", [["x"], ["-1"], [1.5], ["1 2"], [2**64]])
def test_what_is_no_node_cannot_be_forgotten(wrong):
    with pytest.raises(fp.SettingError, match="forget must be node ids, got"):
        FedPlus(PLUS, rounds=1, forget=wrong)


def test_the_secret_is_kept_by_the_party_and_hashed_by_the_server(tmp_path):
    sent, asked = [], []
    grid = grid_of(PLUS, tmp_path, tamper=lambda reply: sent.append(reply) or reply)
    push = grid.push_messages
    grid.push_messages = lambda messages: push(asked.extend(messages) or messages)
    found = run(grid, tmp_path, 3)
    secrets = {m.metadata.src_node_id: m.content["config"][SECRET] for m in sent}
    assert len(set(secrets.values())) == PARTIES
    for k in range(PARTIES):
        (folder,) = (tmp_path / f"party-{k}").iterdir()
        assert load(folder).settings["secret"] == secrets[k + 1]
    assert found.state.identities == {n: hash_secret(s) for n, s in secrets.items()}
    told = "".join(str(dict(m.content["config"])) for m in asked)
    told += "".join(p.read_bytes().decode("latin-1") for p in (tmp_path / "server").rglob("*.*"))
    assert not [secret for secret in secrets.values() if secret in told]


@pytest.mark.parametrize("claim", ["0" * 64, "identity", "short", 7])
def test_no_party_can_take_the_place_of_another(claim, tmp_path):
    """Without the secret: by a guess, by its hash, or by what the server tells new nodes."""
    run(grid_of(PLUS, tmp_path), tmp_path, 2)
    known = load(tmp_path / "server" / "checkpoint").settings["identities"]["3"]
    claimed = {"identity": known, "short": known[:16]}.get(claim, claim)

    def tampered(reply):
        if reply.metadata.src_node_id == 1:
            reply.content["config"] = ConfigRecord({SECRET: claimed})
        return reply

    grid = grid_of(PLUS, tmp_path, tamper=tampered)
    grid.connected = [1, 2, 4, 5]
    found = run(grid, tmp_path, 3)
    assert sorted(found.state.models) == [1, 2, 3, 4, 5]
    assert found.state.identities[3] == known


def shared(folder):
    """Parties 0 and 1 use one state folder."""
    app = app_of(PLUS, folder)

    def train(message, context):
        if context.node_id == 2:
            context.node_config["partition-id"] = 0
        return app(message, context)

    return InProcessGrid(train, 3)


def test_a_second_party_on_the_same_folder_is_refused(tmp_path):
    """In the first round, in later ones, and when the other one is not asked."""
    found = run(shared(tmp_path), tmp_path, 3)
    assert sorted(found.state.models) == [1, 3]
    assert [(round_, node) for round_, node, _ in found.dropped] == [(1, 2), (2, 2), (3, 2)]
    assert all("one that node 1 uses" in reason for _, _, reason in found.dropped)
    sampled = FedPlus(PLUS, rounds=12, cohort=1, folder=tmp_path / "server")
    sampled.run(shared(tmp_path), zeros())
    assert {node for _, node, _ in sampled.dropped} == {2}
    assert sorted(sampled.state.models) == [1, 3]


def test_a_copied_folder_has_no_second_vote(tmp_path):
    """A node with a copy of another party's folder has that party's secret."""
    import shutil

    run(rotated(tmp_path, [1, 2]), tmp_path, 2)
    shutil.copytree(tmp_path / "party-0", tmp_path / "party-2")
    grid = rotated(tmp_path, [1, 2, 9])

    def blind(messages):
        for message in messages:
            message.content["config"].pop("fedplus-others", None)
        return push(messages)

    push, grid.push_messages = grid.push_messages, blind
    found = run(grid, tmp_path, 3)
    assert sorted(found.state.models) == [1, 2]
    assert "it has the secret of node 1" in found.dropped[0][2]


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    from test_party import context, message, model

    first = Party(message(), context(), tmp_path)
    other = context()
    other.node_id = 2
    with pytest.raises(fp.SettingError, match="must be used by one party at a time"):
        Party(message(), other, tmp_path)
    again = Party(message(), context(), tmp_path)  # The same party, after a round that failed.
    del first
    again.reply(model(1.0))
    Party(message(round_=2), other, tmp_path)
