"""The server's side: the same models as the simulator, bounded waits, replies of any kind."""

import shutil
import time

import numpy as np
import pytest
from deployed import PARTIES, app_of, grid_of, samples, simulated, zeros
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import fedplus as fp
from fedplus.experiments.lock import locked
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus, InProcessGrid, Party

METHODS = {
    "local": fp.presets.local_sgd(eta=0.1),
    "fedavg": fp.presets.fedavg(eta=0.1),
    "rfa": fp.presets.rfa(eta=0.1),
    "comed": fp.presets.coordinate_median(eta=0.1),
    "fedprox": fp.presets.fedprox(eta=0.1, sigma=0.5),
    "fedavg+": fp.presets.fedavg_plus(eta=0.1, sigma=0.5),
    "fedgeomed+": fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5),
    "fedcomed+": fp.presets.fedcomed_plus(eta=0.1, sigma=0.5),
    "hybrid": fp.presets.hybrid(
        {"bias": fp.L1(0.1), "*": fp.L2(0.1)}, (("bias", 1), ("weight", 3)), eta=0.1, sigma=0.5
    ),
}
PLUS = METHODS["fedgeomed+"]


def flat(arrays):
    return np.concatenate([np.ravel(arrays["bias"]), np.ravel(arrays["weight"])])


@pytest.mark.parametrize("name", METHODS)
def test_the_same_models_as_the_simulator(name, tmp_path):
    method = METHODS[name]
    strategy = FedPlus(method, rounds=6)
    result = strategy.run(grid_of(method, tmp_path), zeros())
    expected = simulated(method, rounds=6)
    np.testing.assert_allclose(strategy.state.w_global, expected.w_global, atol=1e-5)
    got = {k: array.numpy() for k, array in result.arrays.items()}
    np.testing.assert_allclose(flat(got), expected.w_global, atol=1e-5)
    if method.over == "all":
        models = np.stack([strategy.state.models[node] for node in sorted(strategy.state.models)])
        np.testing.assert_allclose(models, expected.state.w_local, atol=1e-5)


def test_who_is_asked_is_seeded_and_others_keep_their_last_model(tmp_path):
    asked = []
    for attempt in range(2):
        folder = tmp_path / str(attempt)
        strategy = FedPlus(PLUS, rounds=3, cohort=2, seed=7)
        grid = grid_of(PLUS, folder)
        push = grid.push_messages
        seen = []
        grid.push_messages = lambda m, push=push, seen=seen: push(
            seen.append([x.metadata.dst_node_id for x in m]) or m
        )
        strategy.run(grid, zeros())
        seen = [nodes for nodes in seen if nodes]  # None are asked to evaluate.
        asked.append(seen)
        assert len(seen) == 3
        assert all(len(set(nodes)) == 2 for nodes in seen)
        assert set(strategy.state.models) == {node for nodes in seen for node in nodes}
    assert asked[0] == asked[1]


def test_a_server_that_is_new_goes_on_where_the_old_one_was(tmp_path):
    whole = FedPlus(PLUS, rounds=6)
    whole.run(grid_of(PLUS, tmp_path / "a"), zeros())
    first = FedPlus(PLUS, rounds=3, folder=tmp_path / "server")
    first.run(grid_of(PLUS, tmp_path / "b"), zeros())
    second = FedPlus(PLUS, rounds=6, folder=tmp_path / "server")
    second.run(grid_of(PLUS, tmp_path / "b"), zeros())
    assert second.state.done == 6
    np.testing.assert_array_equal(second.state.w_global, whole.state.w_global)
    assert second.state.models.keys() == whole.state.models.keys()
    for node, w in whole.state.models.items():
        np.testing.assert_array_equal(second.state.models[node], w)


@pytest.mark.parametrize(
    "other",
    [
        {"w": np.zeros(3, np.float32)},
        {"bias": np.zeros(1, np.float32), "weight": np.zeros((3, 1), np.float32)},
    ],
)
def test_a_checkpoint_of_another_model_is_refused(other, tmp_path):
    """Other names, or other shapes."""
    FedPlus(PLUS, rounds=1, folder=tmp_path / "s").run(grid_of(PLUS, tmp_path / "p"), zeros())
    with pytest.raises(fp.SettingError, match=r"model was .*, is .* Another model needs"):
        FedPlus(PLUS, rounds=2, folder=tmp_path / "s").run(grid_of(PLUS, tmp_path / "p"), other)


def test_a_party_that_left_can_be_forgotten(tmp_path):
    """Then all is as if it had never been."""
    grid = grid_of(PLUS, tmp_path / "p")
    FedPlus(PLUS, rounds=1, folder=tmp_path / "s").run(grid, zeros())
    grid.connected.remove(5)
    kept = FedPlus(PLUS, rounds=2, folder=tmp_path / "s", forget=[5])
    kept.run(grid, zeros())
    assert sorted(kept.state.models) == [1, 2, 3, 4]


def test_a_model_may_have_scalars(tmp_path):
    method, first = (
        fp.presets.fedavg(eta=0.1),
        {"scale": np.float32(0), "w": np.zeros(2, np.float32)},
    )
    app = ClientApp()

    @app.train()
    def train(message, context):
        party = Party(message, context, tmp_path / str(context.node_id))
        return party.reply({name: a + 1 for name, a in party.start.items()})

    strategy = FedPlus(method, rounds=2)
    strategy.run(InProcessGrid(app, 3), first)
    assert strategy.dropped == []
    np.testing.assert_allclose(strategy.state.w_global, 2)


def test_too_few_parties_skip_the_round_after_a_bounded_wait(tmp_path):
    grid = grid_of(PLUS, tmp_path)
    grid.connected = [1]
    strategy = FedPlus(PLUS, rounds=2, least=3, patience=0.2)
    begun = time.monotonic()
    strategy.run(grid, zeros())
    assert time.monotonic() - begun < 20
    assert (strategy.state.done, strategy.state.skipped) == (2, 2)
    assert not strategy.state.w_global.any()


def test_parties_that_come_back_are_taken_up_again(tmp_path):
    """Gone for two rounds: these are skipped; then as if those rounds had not been."""
    grid = grid_of(PLUS, tmp_path / "a")
    strategy = FedPlus(PLUS, rounds=5, patience=0.1)
    push = grid.push_messages

    def pushed(messages):
        messages = list(messages)
        grid.connected = [] if strategy.state.done in (1, 2) else list(range(1, PARTIES + 1))
        return push(messages)

    grid.push_messages = pushed
    strategy.run(grid, zeros())
    expected = FedPlus(PLUS, rounds=3)
    expected.run(grid_of(PLUS, tmp_path / "b"), zeros())
    assert strategy.state.skipped == 2
    np.testing.assert_allclose(strategy.state.w_global, expected.state.w_global, atol=1e-6)


def arrays_of(reply):
    return {name: array.numpy() for name, array in reply.content["arrays"].items()}


def with_arrays(reply, arrays):
    content = RecordDict(
        {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 1})}
    )
    reply.content = content
    return reply


def changed(change):
    def tampered(reply):
        found = {name: a.copy() for name, a in arrays_of(reply).items()}
        return with_arrays(reply, {n: Array(a) for n, a in change(found).items()})

    return tampered


def claimed(**fields):
    """The weights' array says of itself what is not so."""

    def tampered(reply):
        good = reply.content["arrays"]["weight"]
        made = {"dtype": good.dtype, "shape": good.shape, "stype": good.stype, "data": good.data}
        lie = Array(**(made | fields))
        return with_arrays(reply, {"bias": reply.content["arrays"]["bias"], "weight": lie})

    return tampered


def answered(content):
    def tampered(reply):
        reply.content = content()
        return reply

    return tampered


def failed(reply):
    wrong = Message(Error(1, "out of memory"), reply_to=reply)
    wrong.metadata.__dict__["_src_node_id"] = reply.metadata.src_node_id
    return wrong


MALFORMED = {
    "NaN": (changed(lambda a: a | {"bias": a["bias"] * np.nan}), "NaN or Inf"),
    "Inf": (changed(lambda a: a | {"bias": a["bias"] * 0 + np.inf}), "NaN or Inf"),
    "huge": (changed(lambda a: a | {"bias": np.full(1, 1e30, np.float32)}), "too large"),
    "shape": (changed(lambda a: a | {"weight": a["weight"].T}), "shape (3, 1)"),
    "double": (changed(lambda a: {n: x.astype(np.float64) for n, x in a.items()}), "float64"),
    "whole numbers": (changed(lambda a: {n: x.astype(np.int32) for n, x in a.items()}), "int32"),
    "missing": (changed(lambda a: {"bias": a["bias"]}), "missing parameters: weight"),
    "extra": (changed(lambda a: a | {"more": a["bias"]}), "unknown parameters: 'more'"),
    "empty": (answered(RecordDict), "no arrays"),
    "no arrays": (answered(lambda: RecordDict({"arrays": MetricRecord({"x": 1})})), "no arrays"),
    "an error": (failed, "out of memory"),
    "too many bytes": (claimed(data=b"x" * 100_000), "100,000 bytes"),
    "not NumPy's bytes": (claimed(data=b"x" * 40), ""),
    "another shape than it says": (claimed(shape=(3, 1)), "shape (3, 1)"),
    "no bytes": (claimed(data=b""), "0 bytes"),
    "pickled": (claimed(data=b"\x80\x04" + b"." * 40), ""),
    "nothing": (lambda reply: None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_reply_is_dropped_with_a_reason_and_the_run_goes_on(name, tmp_path):
    """Party 2 sends it in every round; the others train as if it were not there."""
    method = fp.presets.fedavg(eta=0.1)
    tamper, reason = MALFORMED[name]
    strategy = FedPlus(method, rounds=3)
    strategy.run(
        grid_of(
            method, tmp_path / "a",
            tamper=lambda reply: tamper(reply) if reply.metadata.src_node_id == 2 else reply,
        ),
        zeros(),
    )  # fmt: skip
    without = FedPlus(method, rounds=3)
    grid = grid_of(method, tmp_path / "b")
    grid.connected = [1, 3, 4, 5]
    without.run(grid, zeros())
    np.testing.assert_allclose(strategy.state.w_global, without.state.w_global, atol=1e-6)
    if reason is None:
        assert strategy.dropped == []
        return
    assert [(round_, node) for round_, node, _ in strategy.dropped] == [(1, 2), (2, 2), (3, 2)]
    assert all(reason in said and "\n" not in said for _, _, said in strategy.dropped)


def test_a_hundred_malformed_replies_in_a_row_do_not_stop_it(tmp_path):
    rng = np.random.default_rng(0)
    kinds = [tamper for tamper, reason in MALFORMED.values() if reason is not None]
    strategy = FedPlus(PLUS, rounds=20)
    strategy.run(
        grid_of(PLUS, tmp_path, tamper=lambda reply: kinds[rng.integers(len(kinds))](reply)),
        zeros(),
    )
    assert len(strategy.dropped) == 100
    assert strategy.state.skipped == 20
    assert not strategy.state.w_global.any()


def test_a_minority_that_lies_harms_fedavg_and_not_the_medians(tmp_path):
    def flipped(k, party, w):
        if k != 0:
            return w
        return {n: party.received[n] - 20 * (w[n] - party.received[n]) for n in w}

    def found(method, name, spoil):
        strategy = FedPlus(method, rounds=15)
        data = samples()
        data[-1] = (data[-1][0], -data[-1][1])
        strategy.run(grid_of(method, tmp_path / name, data=data, spoil=spoil), zeros())
        return strategy.state.w_global

    kept = {"rfa": True, "coordinate_median": True, "fedavg": False}
    for name, is_kept in kept.items():
        method = getattr(fp.presets, name)(eta=0.1)
        honest, attacked = found(method, f"h{name}", None), found(method, f"a{name}", flipped)
        assert (np.linalg.norm(honest - attacked) < 0.3) == is_kept, (method, honest, attacked)


def test_parties_that_fail_are_told_and_the_others_go_on(tmp_path):
    app = app_of(PLUS, tmp_path / "a")

    def failing(message, context):
        if context.node_id == 3:
            raise OSError("No space left on device")
        return app(message, context)

    strategy = FedPlus(PLUS, rounds=2)
    strategy.run(InProcessGrid(failing, PARTIES), zeros())
    assert [node for _, node, _ in strategy.dropped] == [3, 3]
    assert (
        "No space left on device" in strategy.dropped[0][2] or "Traceback" in strategy.dropped[0][2]
    )
    assert strategy.state.skipped == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rounds": 0}, "rounds must be"),
        ({"rounds": 1, "least": 0}, "least must be"),
        ({"rounds": 1, "least": 3, "cohort": 2}, "cohort must be a whole number ≥ 3"),
        ({"rounds": 1, "deadline": 0}, "deadline must be"),
        ({"rounds": 1, "patience": -1}, "patience must be"),
    ],
)
def test_bad_settings_are_one_line(settings, said):
    with pytest.raises(fp.SettingError, match=said):
        FedPlus(PLUS, **settings)


def test_other_methods_are_refused():
    with pytest.raises(fp.SettingError, match="method must be a FedPlus, got Ditto"):
        FedPlus(fp.baselines.Ditto(eta=0.1, lam=0.1), rounds=1)


def test_models_survive_the_loss_of_a_partys_disk(tmp_path):
    """Its own model is gone with the disk and the process: it is a new party, and starts from w̃."""
    grid = grid_of(PLUS, tmp_path)
    strategy = FedPlus(PLUS, rounds=2, folder=tmp_path / "server")
    strategy.run(grid, zeros())
    shutil.rmtree(tmp_path / "party-1")
    again = FedPlus(PLUS, rounds=3, folder=tmp_path / "server")
    again.run(grid_of(PLUS, tmp_path), zeros())
    assert again.state.done == 3
    assert not again.dropped


def test_a_damaged_checkpoint_of_the_server_gives_way_to_the_one_before(tmp_path):
    FedPlus(PLUS, rounds=3, folder=tmp_path / "s").run(grid_of(PLUS, tmp_path / "p"), zeros())
    newest = sorted((tmp_path / "s" / "checkpoint").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-5])
    again = FedPlus(PLUS, rounds=4, folder=tmp_path / "s")
    again.run(grid_of(PLUS, tmp_path / "p"), zeros())
    assert again.state.done == 4
    assert [line["round"] for line in RunFolder(tmp_path / "s").lines] == [1, 2, 3, 4]


def test_two_servers_do_not_share_a_folder(tmp_path):
    with (
        locked(tmp_path),
        pytest.raises(fp.SettingError, match="must be free"),
    ):
        FedPlus(PLUS, rounds=1, folder=tmp_path).run(grid_of(PLUS, tmp_path / "p"), zeros())
