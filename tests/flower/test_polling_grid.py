"""Polling for replies: all of them are received, or those that are there at the deadline."""

import time

import numpy as np
import pytest

import fedplus as fp
from fedplus.flower import FedPlus, InProcessGrid
from fedplus.flower.polling_grid import PollingGrid
from linear_federation import PARTIES, make_app, make_grid, zeros

METHOD = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)


class SlowGrid(InProcessGrid):
    """A grid whose replies arrive some seconds after the messages; those of lost nodes never do."""

    def __init__(self, app, seconds, lost=()):
        super().__init__(app, PARTIES, tamper=self.drop_lost)
        self.seconds, self.lost, self.poll_times = seconds, lost, []

    def drop_lost(self, reply):
        return None if reply.metadata.src_node_id in self.lost else reply

    def push_messages(self, messages):
        self.sent = time.monotonic()
        return super().push_messages(messages)

    def pull_messages(self, message_ids):
        self.poll_times.append(time.monotonic() - self.sent)
        return super().pull_messages(message_ids) if self.poll_times[-1] >= self.seconds else []


def train(grid, rounds, **settings):
    strategy = FedPlus(METHOD, rounds=rounds, **settings)
    strategy.run(PollingGrid(grid), zeros())
    return strategy.state


def test_all_replies_are_received_soon_after_they_arrive(tmp_path):
    grid = SlowGrid(make_app(METHOD, tmp_path / "a"), seconds=0.5)
    state = train(grid, 2)
    expected = FedPlus(METHOD, rounds=2)
    expected.run(make_grid(METHOD, tmp_path / "b"), zeros())
    np.testing.assert_array_equal(state.w_global, expected.state.w_global)
    assert len(grid.poll_times) > 2
    late = sum(seconds >= grid.seconds for seconds in grid.poll_times)
    assert late == 2 * PARTIES  # Each reply is pulled once, and nothing is polled afterwards.


def test_a_round_ends_at_its_deadline_with_the_replies_so_far(tmp_path):
    grid = SlowGrid(make_app(METHOD, tmp_path), seconds=0.5, lost=(2,))
    state = train(grid, 1, deadline=1.0)
    assert (state.rounds_done, state.rounds_skipped) == (1, 0)
    assert 2 not in state.models  # It counts from its first reply.
    assert state.models[1].any()
    assert sum(seconds >= 1.0 for seconds in grid.poll_times) == 1  # The last poll.


class ForgingGrid(InProcessGrid):
    """Node 1 signs its replies as node 2, and claims to reply to another message."""

    def pull_messages(self, message_ids):
        for reply in super().pull_messages(message_ids):
            if reply.metadata.src_node_id == 1:
                reply.metadata.__dict__["_src_node_id"] = 2
                reply.metadata.__dict__["_reply_to_message_id"] = "another"
            yield reply


class UnreadableGrid(InProcessGrid):
    """The replies of node 1 cannot be decoded."""

    def pull_messages(self, message_ids):
        for reply in super().pull_messages(message_ids):
            if reply.metadata.src_node_id == 1:
                raise ValueError("unknown object type")
            yield reply


@pytest.mark.parametrize(
    ("grid", "reason"),
    [
        (ForgingGrid, "the party failed: it poses as node 2"),
        (UnreadableGrid, "its reply cannot be read: ValueError: unknown object type"),
    ],
)
def test_a_bad_reply_affects_only_its_sender(grid, reason, tmp_path):
    strategy = FedPlus(METHOD, rounds=2)
    strategy.run(PollingGrid(grid(make_app(METHOD, tmp_path), PARTIES)), zeros())
    dropped = strategy.dropped.recent
    assert [(reply.round, reply.node) for reply in dropped] == [(1, 1), (2, 1)]
    assert all(reason in reply.reason for reply in dropped)
    assert all(strategy.state.models[node].any() for node in range(2, PARTIES + 1))
    assert 1 not in strategy.state.models
