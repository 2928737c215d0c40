"""The server's side: the same models as the simulator, bounded waits, invalid replies."""

import shutil
import time

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import fedplus as fp
from fedplus.experiments.lock import folder_lock
from fedplus.experiments.run_folder import RunFolder
from fedplus.flower import FedPlus, InProcessGrid, Party
from linear_federation import (
    FEATURES,
    PARTIES,
    STEPS,
    gradient_step,
    make_app,
    make_grid,
    samples,
    simulate_federation,
    zeros,
)

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


def flatten(arrays):
    return np.concatenate([np.ravel(arrays["bias"]), np.ravel(arrays["weight"])])


@pytest.mark.parametrize("name", METHODS)
def test_models_equal_those_of_the_simulator(name, tmp_path):
    method = METHODS[name]
    parties = 3 if method.join == "first" else None
    strategy = FedPlus(method, rounds=6, parties=parties)
    result = strategy.run(make_grid(method, tmp_path), zeros())
    expected = simulate_federation(method, rounds=6)
    np.testing.assert_allclose(strategy.state.w_global, expected.w_global, atol=1e-5)
    w_global = {name: array.numpy() for name, array in result.arrays.items()}
    np.testing.assert_allclose(flatten(w_global), expected.w_global, atol=1e-5)
    if method.over == "all":
        models = np.stack([strategy.state.models[node] for node in sorted(strategy.state.models)])
        np.testing.assert_allclose(models, expected.state.w_local, atol=1e-5)


def test_the_order_of_the_arrays_does_not_matter(tmp_path):
    method = METHODS["hybrid"]
    strategies = [FedPlus(method, rounds=3) for _ in range(2)]
    for arrays, strategy in zip(
        (zeros(), dict(reversed(zeros().items()))), strategies, strict=True
    ):
        strategy.run(make_grid(method, tmp_path / f"from-{next(iter(arrays))}"), arrays)
    np.testing.assert_array_equal(*(strategy.state.w_global for strategy in strategies))


def test_ditto_is_fedavg_with_a_second_model_that_stays_with_the_party(tmp_path):
    """Ditto as in docs/deployment.md gives the models of the simulator's Ditto."""
    eta, lam, rounds, data, app = 0.1, 0.3, 5, samples(), ClientApp()
    method = fp.presets.fedavg(eta=eta)
    models = {}

    @app.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        party = Party(message, context, tmp_path / str(k))
        w, personal = party.start, party.extra or party.start
        for _ in party.local_steps(STEPS):
            w = party.pull(gradient_step(w, *data[k], eta))
            stepped = gradient_step(personal, *data[k], eta)
            personal = {
                name: stepped[name] - eta * lam * (personal[name] - party.global_model[name])
                for name in personal
            }
        models[k] = np.concatenate([personal["bias"], personal["weight"].ravel()])
        return party.reply(w, extra=personal)

    FedPlus(method, rounds=rounds).run(InProcessGrid(app, PARTIES), zeros())
    federation = fp.Federation.from_arrays(data, data)
    run = fp.simulate(
        fp.baselines.Ditto(eta=eta, lam=lam), federation, fp.models.linear(FEATURES),
        rounds=rounds, steps=STEPS, batch_size=20,
    )  # fmt: skip
    np.testing.assert_allclose([models[k] for k in range(PARTIES)], run.models, atol=1e-5)


def test_the_cohort_is_seeded_and_other_parties_keep_their_last_model(tmp_path):
    cohorts_of_runs = []
    for attempt in range(2):
        folder = tmp_path / str(attempt)
        strategy = FedPlus(PLUS, rounds=3, cohort=2, seed=7)
        grid = make_grid(PLUS, folder)
        push = grid.push_messages
        cohorts = []
        grid.push_messages = lambda messages, push=push, cohorts=cohorts: push(
            cohorts.append([m.metadata.dst_node_id for m in messages]) or messages
        )
        strategy.run(grid, zeros())
        cohorts = [nodes for nodes in cohorts if nodes]  # No node gets a message to evaluate.
        cohorts_of_runs.append(cohorts)
        assert len(cohorts) == 3
        assert all(len(set(nodes)) == 2 for nodes in cohorts)
        assert set(strategy.state.models) == {node for nodes in cohorts for node in nodes}
    assert cohorts_of_runs[0] == cohorts_of_runs[1]


def test_a_restarted_server_continues_from_its_checkpoint(tmp_path):
    uninterrupted = FedPlus(PLUS, rounds=6)
    uninterrupted.run(make_grid(PLUS, tmp_path / "a"), zeros())
    first = FedPlus(PLUS, rounds=3, folder=tmp_path / "server")
    first.run(make_grid(PLUS, tmp_path / "b"), zeros())
    second = FedPlus(PLUS, rounds=6, folder=tmp_path / "server")
    second.run(make_grid(PLUS, tmp_path / "b"), zeros())
    assert second.state.rounds_done == 6
    np.testing.assert_array_equal(second.state.w_global, uninterrupted.state.w_global)
    assert second.state.models.keys() == uninterrupted.state.models.keys()
    for node, w in uninterrupted.state.models.items():
        np.testing.assert_array_equal(second.state.models[node], w)


@pytest.mark.parametrize(
    "other",
    [
        {"w": np.zeros(3, np.float32)},
        {"bias": np.zeros(1, np.float32), "weight": np.zeros((3, 1), np.float32)},
    ],
)
def test_a_checkpoint_of_another_model_is_refused(other, tmp_path):
    """The model has other names or other shapes."""
    FedPlus(PLUS, rounds=1, folder=tmp_path / "s").run(make_grid(PLUS, tmp_path / "p"), zeros())
    with pytest.raises(fp.SettingError, match=r"model was .*, is .* Another model needs"):
        FedPlus(PLUS, rounds=2, folder=tmp_path / "s").run(make_grid(PLUS, tmp_path / "p"), other)


def test_a_party_that_left_can_be_forgotten(tmp_path):
    """Its model no longer counts."""
    grid = make_grid(PLUS, tmp_path / "p")
    FedPlus(PLUS, rounds=1, folder=tmp_path / "s").run(grid, zeros())
    grid.connected.remove(5)
    continued = FedPlus(PLUS, rounds=2, folder=tmp_path / "s", forget=[5])
    continued.run(grid, zeros())
    assert sorted(continued.state.models) == [1, 2, 3, 4]


def test_a_model_may_have_scalars(tmp_path):
    method = fp.presets.fedavg(eta=0.1)
    first = {"scale": np.float32(0), "w": np.zeros(2, np.float32)}
    app = ClientApp()

    @app.train()
    def train(message, context):
        party = Party(message, context, tmp_path / str(context.node_id))
        return party.reply({name: a + 1 for name, a in party.start.items()})

    strategy = FedPlus(method, rounds=2)
    strategy.run(InProcessGrid(app, 3), first)
    assert strategy.dropped.total == 0
    np.testing.assert_allclose(strategy.state.w_global, 2)


def test_too_few_parties_skip_the_round_after_a_bounded_wait(tmp_path):
    grid = make_grid(PLUS, tmp_path)
    grid.connected = [1]
    strategy = FedPlus(PLUS, rounds=2, least=3, patience=0.2)
    start = time.monotonic()
    strategy.run(grid, zeros())
    assert time.monotonic() - start < 20
    assert (strategy.state.rounds_done, strategy.state.rounds_skipped) == (2, 2)
    assert not strategy.state.w_global.any()


def test_parties_that_reconnect_train_again(tmp_path):
    """Two rounds without parties are skipped; they do not change the result."""
    grid = make_grid(PLUS, tmp_path / "a")
    strategy = FedPlus(PLUS, rounds=5, patience=0.1)
    push = grid.push_messages

    def push_to_connected(messages):
        messages = list(messages)
        grid.connected = [] if strategy.state.rounds_done in (1, 2) else list(range(1, PARTIES + 1))
        return push(messages)

    grid.push_messages = push_to_connected
    strategy.run(grid, zeros())
    expected = FedPlus(PLUS, rounds=3)
    expected.run(make_grid(PLUS, tmp_path / "b"), zeros())
    assert strategy.state.rounds_skipped == 2
    np.testing.assert_allclose(strategy.state.w_global, expected.state.w_global, atol=1e-6)


def test_a_party_whose_loss_rises_much_is_named_in_the_log_and_counted(tmp_path, log_lines):
    """Its steps diverge in every round; the server uses only the other parties' models."""
    method, data, app = fp.presets.fedavg(eta=0.1), samples(), ClientApp()

    @app.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        party = Party(message, context, tmp_path / str(k))

        def loss(w):
            x, y = data[k]
            return float(np.mean((x @ w["weight"].T + w["bias"] - y[:, None]) ** 2))

        w = party.start
        for _ in range(STEPS):
            w = party.pull(gradient_step(w, *data[k], 5.0 if k == 1 else 0.1))
        return party.reply(w, {"start-loss": loss(party.start), "end-loss": loss(w)})

    folder = tmp_path / "server"
    strategy = FedPlus(method, rounds=3, folder=folder)
    strategy.run(InProcessGrid(app, PARTIES), zeros())
    assert [(reply.round, reply.node) for reply in strategy.dropped.recent] == [
        (1, 2),
        (2, 2),
        (3, 2),
    ]
    named = [line for line in log_lines if "dropped the reply of node 2: " in line]
    assert len(named) == 3
    assert all("end-loss must be at most" in line and "diverged" in line for line in named)
    lines = RunFolder(folder).lines
    assert [line["figures"]["dropped"] for line in lines] == [[1], [1], [1]]
    without = FedPlus(method, rounds=3)
    grid = make_grid(method, tmp_path / "b")
    grid.connected = [1, 3, 4, 5]
    without.run(grid, zeros())
    np.testing.assert_allclose(strategy.state.w_global, without.state.w_global, atol=1e-6)


def with_arrays(reply, arrays):
    reply.content = RecordDict(
        {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 1})}
    )
    return reply


def change_arrays(change):
    """Return a function that changes the arrays of a reply."""

    def tamper(reply):
        arrays = {name: a.numpy().copy() for name, a in reply.content["arrays"].items()}
        return with_arrays(reply, {n: Array(a) for n, a in change(arrays).items()})

    return tamper


def change_description(**fields):
    """Return a function that gives the array of weights a false description or false bytes."""

    def tamper(reply):
        arrays = reply.content["arrays"]
        true = arrays["weight"]
        values = {"dtype": true.dtype, "shape": true.shape, "stype": true.stype, "data": true.data}
        return with_arrays(reply, {"bias": arrays["bias"], "weight": Array(**(values | fields))})

    return tamper


def replace_content(make_content):
    def tamper(reply):
        reply.content = make_content()
        return reply

    return tamper


def replace_by_error(reply):
    error = Message(Error(1, "out of memory"), reply_to=reply)
    error.metadata.__dict__["_src_node_id"] = reply.metadata.src_node_id
    return error


MALFORMED = {
    "NaN": (change_arrays(lambda a: a | {"bias": a["bias"] * np.nan}), "NaN or Inf"),
    "Inf": (change_arrays(lambda a: a | {"bias": a["bias"] * 0 + np.inf}), "NaN or Inf"),
    "huge": (change_arrays(lambda a: a | {"bias": np.full(1, 1e30, np.float32)}), "too large"),
    "shape": (change_arrays(lambda a: a | {"weight": a["weight"].T}), "shape (3, 1)"),
    "double": (change_arrays(lambda a: {n: x.astype(np.float64) for n, x in a.items()}), "float64"),
    "integers": (change_arrays(lambda a: {n: x.astype(np.int32) for n, x in a.items()}), "int32"),
    "missing": (change_arrays(lambda a: {"bias": a["bias"]}), "missing parameters: weight"),
    "extra": (change_arrays(lambda a: a | {"more": a["bias"]}), "unknown parameters: 'more'"),
    "empty": (replace_content(RecordDict), "no arrays"),
    "no arrays": (
        replace_content(lambda: RecordDict({"arrays": MetricRecord({"x": 1})})), "no arrays",
    ),
    "an error": (replace_by_error, "out of memory"),
    "too many bytes": (change_description(data=b"x" * 100_000), "100,000 bytes"),
    "not NumPy's bytes": (change_description(data=b"x" * 40), ""),
    "false shape": (change_description(shape=(3, 1)), "shape (3, 1)"),
    "no bytes": (change_description(data=b""), "0 bytes"),
    "pickled": (change_description(data=b"\x80\x04" + b"." * 40), ""),
    "no reply": (lambda reply: None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_reply_is_dropped_with_a_reason_and_the_run_continues(name, tmp_path):
    """Party 2 sends it in every round; the others train as if that party did not exist."""
    method = fp.presets.fedavg(eta=0.1)
    tamper, reason = MALFORMED[name]
    strategy = FedPlus(method, rounds=3)
    strategy.run(
        make_grid(
            method, tmp_path / "a",
            tamper=lambda reply: tamper(reply) if reply.metadata.src_node_id == 2 else reply,
        ),
        zeros(),
    )  # fmt: skip
    without = FedPlus(method, rounds=3)
    grid = make_grid(method, tmp_path / "b")
    grid.connected = [1, 3, 4, 5]
    without.run(grid, zeros())
    np.testing.assert_allclose(strategy.state.w_global, without.state.w_global, atol=1e-6)
    if reason is None:
        assert strategy.dropped.total == 0
        return
    senders = [(dropped.round, dropped.node) for dropped in strategy.dropped.recent]
    assert senders == [(1, 2), (2, 2), (3, 2)]
    reasons = [dropped.reason for dropped in strategy.dropped.recent]
    assert all(reason in text and "\n" not in text for text in reasons)


def test_a_hundred_malformed_replies_in_a_row_do_not_stop_the_server(tmp_path):
    rng = np.random.default_rng(0)
    tampers = [tamper for tamper, reason in MALFORMED.values() if reason is not None]
    strategy = FedPlus(PLUS, rounds=20)
    grid = make_grid(PLUS, tmp_path, lambda reply: tampers[rng.integers(len(tampers))](reply))
    strategy.run(grid, zeros())
    assert strategy.dropped.total == 100
    assert strategy.state.rounds_skipped == 20
    assert not strategy.state.w_global.any()


def test_a_lying_minority_harms_fedavg_but_not_the_medians(tmp_path):
    def flip_update(k, party, w):
        if k != 0:
            return w
        return {n: party.global_model[n] - 20 * (w[n] - party.global_model[n]) for n in w}

    def train(method, name, corrupt):
        strategy = FedPlus(method, rounds=15)
        data = samples()
        data[-1] = (data[-1][0], -data[-1][1])
        strategy.run(make_grid(method, tmp_path / name, data=data, corrupt=corrupt), zeros())
        return strategy.state.w_global

    is_robust = {"rfa": True, "coordinate_median": True, "fedavg": False}
    for name, expected in is_robust.items():
        method = getattr(fp.presets, name)(eta=0.1)
        honest = train(method, f"honest-{name}", None)
        attacked = train(method, f"attacked-{name}", flip_update)
        is_close = np.linalg.norm(honest - attacked) < 0.3
        assert is_close == expected, (method, honest, attacked)


def test_failing_parties_are_logged_and_the_others_continue(tmp_path):
    app = make_app(PLUS, tmp_path / "a")

    def failing(message, context):
        if context.node_id == 3:
            raise OSError("No space left on device")
        return app(message, context)

    strategy = FedPlus(PLUS, rounds=2)
    strategy.run(InProcessGrid(failing, PARTIES), zeros())
    assert [dropped.node for dropped in strategy.dropped.recent] == [3, 3]
    reason = strategy.dropped.recent[0].reason
    assert "No space left on device" in reason or "Traceback" in reason
    assert strategy.state.rounds_skipped == 0


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"rounds": 0}, "rounds must be"),
        ({"rounds": 1, "least": 0}, "least must be"),
        ({"rounds": 1, "least": 3, "cohort": 2}, "cohort must be a whole number ≥ 3"),
        ({"rounds": 1, "deadline": 0}, "deadline must be"),
        ({"rounds": 1, "patience": -1}, "patience must be"),
    ],
)
def test_bad_settings_are_refused(settings, error):
    with pytest.raises(fp.SettingError, match=error):
        FedPlus(PLUS, **settings)


def test_other_methods_are_refused():
    with pytest.raises(fp.SettingError, match=r"method must be a method of .*, got Ditto"):
        FedPlus(fp.baselines.Ditto(eta=0.1, lam=0.1), rounds=1)


def test_a_party_that_lost_its_disk_trains_as_a_new_party(tmp_path):
    """Its own model is lost, so it starts from w̃."""
    grid = make_grid(PLUS, tmp_path)
    strategy = FedPlus(PLUS, rounds=2, folder=tmp_path / "server")
    strategy.run(grid, zeros())
    shutil.rmtree(tmp_path / "party-1")
    again = FedPlus(PLUS, rounds=3, folder=tmp_path / "server")
    again.run(make_grid(PLUS, tmp_path), zeros())
    assert again.state.rounds_done == 3
    assert again.dropped.total == 0


def test_the_server_continues_from_the_previous_checkpoint_if_the_last_is_damaged(tmp_path):
    FedPlus(PLUS, rounds=3, folder=tmp_path / "s").run(make_grid(PLUS, tmp_path / "p"), zeros())
    newest = sorted((tmp_path / "s" / "checkpoint").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-5])
    again = FedPlus(PLUS, rounds=4, folder=tmp_path / "s")
    again.run(make_grid(PLUS, tmp_path / "p"), zeros())
    assert again.state.rounds_done == 4
    assert [line["round"] for line in RunFolder(tmp_path / "s").lines] == [1, 2, 3, 4]


def test_two_servers_do_not_share_a_folder(tmp_path):
    with (
        folder_lock(tmp_path),
        pytest.raises(fp.SettingError, match="must be free"),
    ):
        FedPlus(PLUS, rounds=1, folder=tmp_path).run(make_grid(PLUS, tmp_path / "p"), zeros())
