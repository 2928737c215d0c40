"""Waiting for replies: all of them, or those that are there at the deadline."""

import time

import numpy as np
import pytest
from deployed import PARTIES, app_of, grid_of, zeros

import fedplus as fp
from fedplus.flower import FedPlus, InProcessGrid
from fedplus.flower.polling_grid import PollingGrid

METHOD = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)


class Slow(InProcessGrid):
    """Replies can be had some seconds after their messages were sent; a lost one never."""

    def __init__(self, app, seconds, lost=()):
        super().__init__(app, PARTIES, tamper=self.away)
        self.seconds, self.lost, self.looks = seconds, lost, []

    def away(self, reply):
        return None if reply.metadata.src_node_id in self.lost else reply

    def push_messages(self, messages):
        self.sent = time.monotonic()
        return super().push_messages(messages)

    def pull_messages(self, message_ids):
        self.looks.append(time.monotonic() - self.sent)
        return super().pull_messages(message_ids) if self.looks[-1] >= self.seconds else []


def trained(grid, rounds, **more):
    strategy = FedPlus(METHOD, rounds=rounds, **more)
    strategy.run(PollingGrid(grid), zeros())
    return strategy.state


def test_all_replies_are_had_soon_after_they_came(tmp_path):
    grid = Slow(app_of(METHOD, tmp_path / "a"), seconds=0.5)
    state = trained(grid, 2)
    expected = FedPlus(METHOD, rounds=2)
    expected.run(grid_of(METHOD, tmp_path / "b"), zeros())
    np.testing.assert_array_equal(state.w_global, expected.state.w_global)
    assert len(grid.looks) > 2  # It looked, waited and looked again,
    late = sum(look >= grid.seconds for look in grid.looks)
    assert late == 2 * PARTIES  # and never once it had all: one look a reply.


def test_the_deadline_is_kept_and_what_came_until_then_is_taken(tmp_path):
    grid = Slow(app_of(METHOD, tmp_path), seconds=0.5, lost=(2,))
    state = trained(grid, 1, deadline=1.0)
    assert (state.done, state.skipped) == (1, 0)
    assert 2 not in state.models  # It counts from its first reply.
    assert state.models[1].any()
    assert sum(look >= 1.0 for look in grid.looks) == 1  # The last look is at the deadline.


class Forged(InProcessGrid):
    """Node 1 signs its replies as node 2, and claims to answer node 2's message."""

    def pull_messages(self, message_ids):
        for reply in super().pull_messages(message_ids):
            if reply.metadata.src_node_id == 1:
                reply.metadata.__dict__["_src_node_id"] = 2
                reply.metadata.__dict__["_reply_to_message_id"] = "another"
            yield reply


class Unreadable(InProcessGrid):
    """What node 1 has sent cannot be put together."""

    def pull_messages(self, message_ids):
        for reply in super().pull_messages(message_ids):
            if reply.metadata.src_node_id == 1:
                raise ValueError("unknown object type")
            yield reply


@pytest.mark.parametrize(
    ("grid", "reason"),
    [
        (Forged, "the party failed: it poses as node 2"),
        (Unreadable, "its reply cannot be read: ValueError: unknown object type"),
    ],
)
def test_a_reply_harms_nobody_but_its_sender(grid, reason, tmp_path):
    strategy = FedPlus(METHOD, rounds=2)
    strategy.run(PollingGrid(grid(app_of(METHOD, tmp_path), PARTIES)), zeros())
    assert [(round_, node) for round_, node, _ in strategy.dropped] == [(1, 1), (2, 1)]
    assert all(reason in why for _, _, why in strategy.dropped)
    assert all(strategy.state.models[node].any() for node in range(2, PARTIES + 1))
    assert 1 not in strategy.state.models
