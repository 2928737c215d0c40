"""Specifications of experiments: invalid ones are rejected with the line, defaults are filled in."""

import tomllib
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedplus.check import SettingError
from fedplus.data import SETS
from fedplus.experiments.build import (
    build_federation,
    build_method,
    build_model,
    simulate_arguments,
)
from fedplus.experiments.cli_spec import spec_from_command
from fedplus.experiments.defaults import LABELS, fill_defaults, required_settings
from fedplus.experiments.runner import prepare, run_all
from fedplus.experiments.spec import parse_spec, to_toml
from fedplus.experiments.toml_source import TomlSource, key_lines, read_toml
from fedplus.kappa import KappaWarning
from fedplus.methods import METHODS
from fedplus.schedules import Linear
from fedplus.server_optimizer import AdaptiveServer

GOOD = """\
seeds = [0, 1]

[data]
name = "digits-robust"
parties = 4

[train]
rounds = 2
steps = 1

[[methods]]
name = "fedavg"
eta = 0.1

[[methods]]
name = "fedavg+"
sigma = 0.5
"""

BAD = {
    "unknown key": ("rounds = 2", "runds = 2", 8, "train.runds is not known", "Did you mean rounds?"),
    "unknown table": ("[train]", "[trian]", 7, "trian is not known", "Did you mean train?"),
    "wrong type": ("rounds = 2", 'rounds = "two"', 8, "train.rounds must be", "'two'"),
    "a number too small": ("rounds = 2", "rounds = 0", 8, "train.rounds must be", "got 0"),
    "a fraction": ("steps = 1", "steps = 1.5", 9, "train.steps must be", "1.5"),
    "true is no number": ("rounds = 2", "rounds = true", 8, "train.rounds must be", "True"),
    "unknown data": ('"digits-robust"', '"digit-robust"', 3, "data set must be", "digits-robust?"),
    "unknown method": ('"fedavg+"', '"fedavg++"', 15, "method must be", "Did you mean fedavg+?"),
    "unknown setting": ("sigma = 0.5", "sigmal = 0.5", 17, "setting of fedavg+ must be", "sigmal"),
    "a setting out of range": ("eta = 0.1", "eta = -1.0", 13, "LocalSolve.eta must be", "> 0"),
    "a setting that is a text": ("eta = 0.1", 'eta = "high"', 13, "LocalSolve.eta must be", "high"),
    "unknown setting of the data": ("parties = 4", "partys = 4", 5, "digits-robust must", "partys"),
    "cohort beyond parties": ("steps = 1", "steps = 1\ncohort = 9", 10, "must be from 1 to 4", "9"),
    "steps and epochs": ("steps = 1", "steps = 1\nepochs = 1.0", 9, "only one of them", "got both"),
    "unknown attack": (
        "steps = 1", 'steps = 1\nfaults = [{ parties = [0], attack = "sign_flop" }]', 7,
        "attack must be", "sign_flip?",
    ),
    "a fault of nobody": (
        "steps = 1", 'steps = 1\nfaults = [{ parties = [], attack = "replay" }]', 10,
        "train.faults.0.parties must", "at least 1",
    ),
    "no methods": ('[[methods]]\nname = "fedavg"\neta = 0.1', "methods = 3", None, "", ""),
    "not TOML": ("[train]", "[train", None, "is not TOML", "line 7"),
    "two seeds alike": ("[0, 1]", "[0, 0]", 1, "seeds must be different", "[0, 0]"),
    "a label of two lines": ("eta = 0.1", 'label = "a\\nb"', 13, "label must be one line", "a"),
    "data that is no table": ("[data]", "[date]", None, "data is missing", "E.g."),
    "a seed below 0": ("[0, 1]", "[-1]", 1, "seeds.0 must be", "-1"),
    "two of one label": (
        'name = "fedavg+"\nsigma = 0.5', 'name = "fedavg"', None, "must have different labels", ""
    ),
    "unknown model": (
        "[train]", '[model]\nname = "linar"\n[train]', 8, "name of the model must be", "mean linear?",
    ),
    "an aggregator that is no table": (
        "eta = 0.1", 'eta = 0.1\naggregate = "krum"', 14, "aggregate must be a table with name",
        'e.g. { name = "trimmed-mean", trim = 0.2 }',
    ),
    "model that does not fit": ("[train]", '[model]\nname = "lstm"\n[train]', 7, "sequences", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_specification_is_rejected_with_file_line_and_advice(name, tmp_path):
    old, new, line, what, detail = BAD[name]
    assert old in GOOD
    path = tmp_path / "experiment.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(SettingError) as caught:
        run_all(*_read(path, tmp_path))
    message = str(caught.value)
    assert "\n" not in message
    assert what in message
    assert detail in message
    if line is not None:
        assert message.startswith(f"{path}, line {line}: "), message
    assert not (tmp_path / "out").exists()


def _read(path, tmp_path):
    spec, source = spec_from_command(str(path))
    return spec, tmp_path / "out", source


def test_a_filled_in_specification_survives_a_round_trip_through_toml(tmp_path):
    path = tmp_path / "experiment.toml"
    path.write_text(GOOD)
    spec, source = spec_from_command(str(path))
    again = fill_defaults(parse_spec(tomllib.loads(to_toml(spec)), TomlSource()))
    assert again == spec
    assert spec.train.batch_size == 20
    assert spec.methods[1].settings["eta"] == 0.02
    assert spec.for_run(1, 1).data.seed == 1
    assert fill_defaults(spec) == spec
    prepare(spec, 0, source)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_valid_default_settings_and_a_label(name):
    settings = {"data.validation_share": 0.2, "rounds": 1, "model.name": "mlp", "hidden": [8]}
    spec, source = spec_from_command("digits-robust", [name], settings)
    prepared = prepare(spec, 0, source)
    assert LABELS[name] == spec.methods[0].label
    assert type(prepared.methods[0]) is type(build_method(spec.methods[0], prepared.model, source))


def test_kappa_is_in_the_recommended_range_for_every_learning_rate():
    for eta in (1e-4, 0.02, 0.3):
        sigma = required_settings("fedavg+", eta)["sigma"]
        assert 0.9 <= 1 / (1 + eta * sigma) <= 0.999


@pytest.mark.parametrize("name", SETS)
def test_no_data_set_has_a_default_cohort(name):
    """All parties train in every round unless the user sets a cohort."""
    assert spec_from_command(name, ["fedavg"])[0].train.cohort is None
    assert spec_from_command(name, ["fedavg"], {"cohort": 2})[0].train.cohort == 2


def test_all_parties_of_a_federation_train_in_every_round(tmp_path):
    settings = {"rounds": 2, "steps": 1, "reference.local": False}
    spec, source = spec_from_command("synthetic", ["fedavg"], settings)
    (run,) = run_all(spec, tmp_path / "run", source)
    trained = [count for line in run.lines for count in line["figures"]["cohort"]]
    assert trained == [30, 30]
    assert len(run.parties["names"]) == 30


@pytest.mark.parametrize("name", [s.name for s in SETS.values() if not s.needs])
def test_every_data_set_without_downloads_has_a_default_model(name):
    spec, source = spec_from_command(name, ["fedavg"])
    federation = build_federation(spec.for_run(0, 0).data, source)
    model = build_model(spec.model, federation, source)
    y = federation.train.y
    assert model.task.better == ("lower" if y.dtype.kind == "f" else "higher")


def test_a_folder_in_a_specification_is_relative_to_its_file(tmp_path):
    (tmp_path / "parties").mkdir()
    for party in "ab":
        rows = "\n".join(f"{i},{i % 2}" for i in range(12))
        (tmp_path / "parties" / f"{party}.csv").write_text(f"x,y\n{rows}\n")
    path = tmp_path / "e.toml"
    path.write_text(
        '[data]\nfolder = "parties"\ntest_share = 0.25\n[[methods]]\nname = "fedavg"\n'
        "[train]\nrounds = 1\n"
    )
    spec, source = spec_from_command(str(path))
    assert build_federation(spec.for_run(0, 0).data, source).names == ("a", "b")


def test_parts_and_aggregators_are_built_from_tables():
    spec, source = spec_from_command("digits-robust", ["hybrid", "ditto"])
    content = tomllib.loads(to_toml(spec))
    content["methods"][0]["parts"] = {
        "bias": {"psi": "l1", "delta": 0.1},
        "*": {"psi": "quadratic", "delta": 0.2},
    }
    content["methods"][1]["aggregate"] = {"name": "trimmed-mean", "trim": 0.2}
    hybrid, ditto = prepare(parse_spec(content, TomlSource()), 0, source).methods
    assert repr(hybrid.local.psi).count("delta=0.2") == 1
    assert ditto.aggregate.trim == 0.2
    for wrong in (
        {"name": "trimed-mean"},
        {"name": "krum", "tau": 1},
        "mean",
        {"tau": 1},
        {"name": 3},
    ):
        content["methods"][1]["aggregate"] = wrong
        with pytest.raises(SettingError, match="must be"):
            prepare(parse_spec(content, TomlSource()), 0, source)


SCHEDULE = {"schedule": "linear", "first": 0.4, "last": 0.1, "rounds": 10}
TABLES_WITH_SCHEDULES = {
    "eta": ("fedgeomed+", {"eta": SCHEDULE}, lambda m: m.local.eta),
    "delta": ("fedgeomed+", {"delta": SCHEDULE}, lambda m: m.local.psi.delta),
    "eta of a baseline": ("ditto", {"eta": SCHEDULE}, lambda m: m.eta),
    "delta of a part": (
        "hybrid", {"parts": {"*": {"psi": "l2", "delta": SCHEDULE}}},
        lambda m: m.local.psi.parts["*"].delta,
    ),
    "delta of a layer": (
        "layers", {"parts": {"*": {"psi": "l1", "delta": SCHEDULE, "sigma": 1}}},
        lambda m: m.local.psi.parts["*"].delta,
    ),
    "sigma of a layer": (
        "layers", {"parts": {"*": {"sigma": SCHEDULE}}}, lambda m: m.local.sigma.values["*"]
    ),
    "trim": (
        "fedavg", {"aggregate": {"name": "trimmed-mean", "trim": SCHEDULE}},
        lambda m: m.aggregate.trim,
    ),
    "eta of the server": (
        "fedgeomed+", {"server_optimizer": {"name": "adam", "eta": SCHEDULE}},
        lambda m: m.server_optimizer.eta,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES_WITH_SCHEDULES)
def test_every_number_of_a_method_may_be_a_schedule(name):
    """It is a table in the place of the number, also inside other tables."""
    method, settings, setting_of = TABLES_WITH_SCHEDULES[name]
    spec, source = spec_from_command("digits-robust", [method], settings)
    (built,) = prepare(parse_spec(tomllib.loads(to_toml(spec)), TomlSource()), 0, source).methods
    assert setting_of(built) == Linear(0.4, 0.1, rounds=10)


def test_a_schedule_has_no_schedules():
    nested = SCHEDULE | {"first": SCHEDULE}
    spec, source = spec_from_command("digits-robust", ["fedgeomed+"], {"delta": nested})
    with pytest.raises(SettingError, match=r"Linear\.first must be a finite number"):
        prepare(spec, 0, source)


def test_server_optimizers_are_built_from_tables():
    table = {"name": "yogi", "eta": 0.1, "tau": 0.01}
    spec, source = spec_from_command("digits-robust", ["fedcomed+"], {"server_optimizer": table})
    (built,) = prepare(spec, 0, source).methods
    assert built.server_optimizer == AdaptiveServer("yogi", 0.1, tau=0.01)
    for wrong in ("adam", {"name": "sgd"}, {"name": "adam"}, {"name": "adam", "eta": 1, "beta": 0}):
        spec, source = spec_from_command("digits-robust", ["fedavg"], {"server_optimizer": wrong})
        with pytest.raises(SettingError, match="must"):
            prepare(spec, 0, source)


def test_faults_and_stragglers_reach_the_simulation():
    spec, source = spec_from_command(
        "digits-robust", ["fedavg"],
        {
            "stragglers": {"share": 0.5, "drop": True},
            "faults": [{"parties": [1], "attack": "scaling", "scale": 3.0}],
        },
    )  # fmt: skip
    arguments = simulate_arguments(spec, source)
    assert arguments["stragglers"].drop
    assert arguments["faults"][0].parties == (1,)


def test_a_setting_without_a_table_is_set_in_the_table_that_has_it():
    spec, _ = spec_from_command(
        "digits-personal", ["fedavg", "fedprox"],
        {"eta": 0.5, "sigma": 2.0, "parties": 6, "rounds": 3, "scale": 0.5, "model.name": "mlp",
         "hidden": [7]},
    )  # fmt: skip
    assert [method.settings["eta"] for method in spec.methods] == [0.5, 0.5]
    assert "sigma" not in spec.methods[0].settings
    assert spec.methods[1].settings["sigma"] == 2.0
    assert spec.data.settings["parties"] == 6
    assert spec.train.rounds == 3
    assert spec.model.settings["hidden"] == [7]


@given(st.text(alphabet='ab.[]"=# \n01', max_size=60))
def test_key_lines_accepts_any_text(text):
    assert all(line >= 1 for line in key_lines(text).values())


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**10)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["fedavg", "ditto", "digits-robust", "size", "mlp", "sign_flip", "vmap"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["name", "folder", "eta", "rounds", "steps", "parties", "share", "attack", "psi", "x", "count"]
    ), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
KEYS = st.sampled_from(
    [
        "version",
        "title",
        "seeds",
        "data",
        "model",
        "train",
        "reference",
        "new_parties",
        "methods",
        "extra",
    ]
)
TRAIN = st.sampled_from(
    ["rounds", "cohort", "steps", "epochs", "batch_size", "weights", "stragglers", "faults",
     "evaluate_every", "path", "objective", "each", "checkpoint_every"]
)  # fmt: skip


def _valid_tables():
    return {
        "data": {"name": "digits-robust", "parties": 3},
        "train": {"rounds": 1, "steps": 1},
        "methods": [{"name": "fedavg", "eta": 0.1}],
    }


def _assert_builds_or_is_rejected(content):
    try:
        spec = fill_defaults(parse_spec(content, TomlSource()))
        prepared = prepare(spec, spec.seeds[0])
    except SettingError as error:
        message = str(error)
    else:
        message = "valid"
        again = parse_spec(tomllib.loads(to_toml(prepared.spec)), TomlSource())
        assert again == prepared.spec
    assert message
    assert "\n" not in message


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_tables_are_built_or_rejected(tables):
    _assert_builds_or_is_rejected(_valid_tables() | tables)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(TRAIN, VALUES, min_size=1, max_size=3))
def test_any_training_settings_are_built_or_rejected(train):
    valid = _valid_tables()
    _assert_builds_or_is_rejected(valid | {"train": valid["train"] | train})


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(METHODS)),
    st.dictionaries(
        st.sampled_from(["eta", "sigma", "delta", "lam", "aggregate", "parts", "q", "label", "option"]),
        VALUES, max_size=3,
    ),
)  # fmt: skip
def test_any_method_settings_are_built_or_rejected(name, given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KappaWarning)
        _assert_builds_or_is_rejected(_valid_tables() | {"methods": [{"name": name, **given}]})


def test_invalid_files_are_rejected_with_their_path(tmp_path):
    path = tmp_path / "e.toml"
    for content in (
        b"\xff\xfe",
        b"",
        b"a = 1\na = 2",
        b"[[methods]]\nname = 3",
        b"[data]\nname='x'",
    ):
        path.write_bytes(content)
        with pytest.raises(SettingError) as caught:
            parse_spec(*read_toml(path))
        assert str(path) in str(caught.value)
