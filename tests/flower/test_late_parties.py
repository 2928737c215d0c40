"""When a party counts, and from which model it starts: ``join="current"`` and ``join="first"``."""

import numpy as np
import pytest

import fedplus as fp
from fedplus.flower import FedPlus, InProcessGrid
from linear_federation import PARTIES, gradient_step, make_app, samples, zeros

ETA = 0.1
CURRENT = fp.FedPlus(fp.LocalSolve(fp.Zero(), eta=ETA), aggregate=fp.Mean())
FIRST = CURRENT.replace(join="first")


@pytest.fixture
def train(tmp_path):
    """Return a function that trains on from the same folders and returns the strategy."""

    def train(method, rounds, connected, ids=PARTIES, **settings):
        strategy = FedPlus(method, rounds=rounds, folder=tmp_path / "server", **settings)
        grid = InProcessGrid(make_app(method, tmp_path), ids)
        grid.connected = connected
        strategy.run(grid, zeros())
        return strategy

    return train


def trained_model(k, rounds):
    """Return the flat model of party k after some rounds of its own, from zeros."""
    w = zeros()
    for _ in range(4 * rounds):
        w = gradient_step(w, *samples()[k], ETA)
    return np.concatenate([w["bias"], w["weight"].ravel()])


def test_parties_that_have_not_replied_yet_count_with_the_first_model(train):
    """With no personal pull, w̃ is the sum of the models divided by all parties so far."""
    one = train(FIRST, 1, [1], parties=PARTIES)
    np.testing.assert_allclose(one.state.w_global, trained_model(0, 1) / PARTIES, atol=1e-6)
    two = train(FIRST, 2, [1, 2], parties=PARTIES)  # The server was restarted.
    expected = (trained_model(0, 2) + trained_model(1, 1)) / PARTIES
    np.testing.assert_allclose(two.state.w_global, expected, atol=1e-6)


def test_late_parties_with_join_current_start_from_w_global_and_count_from_then_on(train):
    one = train(CURRENT, 1, [1])
    np.testing.assert_allclose(one.state.w_global, trained_model(0, 1), atol=1e-6)
    two = train(CURRENT, 2, [2])
    assert not np.allclose(two.state.models[2], trained_model(1, 1), atol=1e-3)


def test_a_party_that_left_for_good_does_not_count_whether_it_has_replied_or_not(train):
    train(FIRST, 1, [1, 2], parties=PARTIES)
    left = train(FIRST, 2, [1], parties=PARTIES, forget=[2, 5])
    expected = trained_model(0, 2) / (PARTIES - 2)
    np.testing.assert_allclose(left.state.w_global, expected, atol=1e-6)
    later = train(FIRST, 3, [1], parties=PARTIES)  # The party is still removed.
    expected = trained_model(0, 3) / (PARTIES - 2)
    np.testing.assert_allclose(later.state.w_global, expected, atol=1e-6)
    back = train(FIRST, 4, [1, 2], parties=PARTIES)  # Party 2 still has its own model.
    expected = (trained_model(0, 4) + trained_model(1, 2)) / (PARTIES - 1)
    np.testing.assert_allclose(back.state.w_global, expected, atol=1e-6)


def test_a_forgotten_party_that_returns_with_a_new_key_counts_once(train):
    """Also if the old node stays in ``forget``; w̃ has the first model once for each of the others."""
    train(FIRST, 1, [1, 2], parties=PARTIES)
    train(FIRST, 2, [1], parties=PARTIES, forget=[2])
    for round_ in (3, 4):
        later = train(FIRST, round_, [1, 20], parties=PARTIES, forget=[2], ids=[1, 20, 3, 4, 5])
        expected = (trained_model(0, round_) + trained_model(1, round_ - 1)) / PARTIES
        np.testing.assert_allclose(later.state.w_global, expected, atol=1e-6)
    assert later.state.parties == [1, 20]


def test_a_replaced_node_that_is_forgotten_later_does_not_count_either(train):
    train(FIRST, 1, [1, 2], parties=PARTIES)
    ids = [1, 20, 3, 4, 5]
    train(FIRST, 2, [1, 20], parties=PARTIES, ids=ids)
    later = train(FIRST, 3, [1, 20], parties=PARTIES, forget=[2], ids=ids)
    expected = (trained_model(0, 3) + trained_model(1, 3)) / PARTIES
    np.testing.assert_allclose(later.state.w_global, expected, atol=1e-6)


def test_more_parties_than_announced_all_count(train, log_lines):
    """Parties that have replied always count, with a warning. A restart can announce another number."""
    two = train(FIRST, 1, [1, 2, 3], parties=2)
    assert any("3 parties have replied or left, more than parties=2" in line for line in log_lines)
    log_lines.clear()
    expected = sum(trained_model(k, 1) for k in range(3)) / 3
    np.testing.assert_allclose(two.state.w_global, expected, atol=1e-6)
    more = train(FIRST, 2, [4], parties=PARTIES)
    assert not any("parties=" in line for line in log_lines)
    expected = (expected * 3 + trained_model(3, 1)) / PARTIES
    np.testing.assert_allclose(more.state.w_global, expected, atol=1e-6)


@pytest.mark.parametrize("method", [FIRST, fp.presets.fedavg(eta=ETA).replace(join="first")])
def test_only_new_nodes_get_the_first_model_and_only_if_it_matters(method, train, monkeypatch):
    received = []
    original = FedPlus.configure_train

    def configure_train(*args):
        messages = list(original(*args))
        received.append({m.metadata.dst_node_id: "first-arrays" in m.content for m in messages})
        return messages

    monkeypatch.setattr(FedPlus, "configure_train", configure_train)
    train(method, 1, [1], parties=PARTIES)
    train(method, 2, [1, 2], parties=PARTIES)
    train(method, 3, [2], parties=PARTIES)
    is_new = method is FIRST
    assert received == [{1: False}, {1: False, 2: is_new}, {2: False}]


def test_the_number_of_parties_is_required_only_where_it_counts():
    with pytest.raises(fp.SettingError, match=r"^parties must be the number .*got None\.") as error:
        FedPlus(FIRST, rounds=1)
    assert "\n" not in str(error.value)
    with pytest.raises(fp.SettingError, match="parties must be a whole number ≥ 1"):
        FedPlus(FIRST, rounds=1, parties=0)
    FedPlus(FIRST.replace(over="active"), rounds=1)
    FedPlus(CURRENT, rounds=1)
