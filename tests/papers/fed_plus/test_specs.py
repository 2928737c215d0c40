"""The specifications state what the paper states; the numbers here are copied from its text."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from papers.fed_plus.evaluation import first_active_rounds
from papers.fed_plus.results import read_csv
from papers.fed_plus.sensitivity import DATA_SWEEPS
from papers.fed_plus.specs import (
    load_spec,
    published_results,
    published_table2,
    spec_names,
    spec_path,
)

from fedplus.data import SETS
from fedplus.experiments.build import MODELS, build_method, build_model
from fedplus.experiments.runner import prepare
from fedplus.experiments.toml_source import TomlSource
from fedplus.methods import METHODS
from papers.fed_plus import grids, specs

pytestmark = pytest.mark.filterwarnings("ignore::fedplus.KappaWarning")

THEIRS = ("scaffold", "pfedme", "perfedavg", "apfl", "fedavg+", "fedgeomed+", "fedcomed+")
# Table 2 as printed: one line per data set, in the order of THEIRS.
PRINTED = {
    "mnist-robust-n10": (81.4, 89.4, 87.3, 88.3, 87.0, 91.5, 80.5),
    "mnist-robust-n50": (82.3, 85.5, 85.7, 81.3, 86.7, 91.4, 79.4),
    "mnist-personal-n10": (72.0, 72.3, 70.6, 75.7, 71.9, 78.3, 66.7),
    "mnist-personal-n50": (63.8, 66.3, 68.9, 72.7, 69.4, 76.2, 52.3),
    "synthetic-regression": (2764, 4268, 2780, 1606, 1966, 1048, 1074),
}
TABLE2 = sorted(f"table2-{name}" for name in PRINTED)
# The batch size, η and σ of section 5.1.
SETTINGS = {"mnist": (20, 0.02, 15.0), "synthetic-regression": (10, 0.0001, 1.0)}
RATES = {"scaffold": ("eta_l",), "perfedavg": ("alpha", "beta"), "pfedme": ("eta", "eta_inner")}
PULLS = {"pfedme": "lam", "ditto": "lam", "fedprox": "sigma"}

RESULTS = Path(__file__).parents[3] / "papers" / "fed_plus" / "results"
GRIDS = {"attacks": "tuning-attacks", "layers": "tuning-layers", "silos": "tuning-silos"}
SCHEDULE = ("rounds", "cohort", "steps", "epochs", "batch_size")


def test_the_papers_numbers_are_as_printed():
    assert dict(published_table2()) == {
        name: dict(zip(THEIRS, row, strict=True)) for name, row in PRINTED.items()
    }


def test_every_row_of_table_2_has_a_specification():
    assert spec_names("table2-") == TABLE2


@pytest.mark.parametrize("name", TABLE2)
def test_table_2_is_trained_as_stated(name):
    spec = load_spec(name)
    kind = "mnist" if "mnist" in name else "synthetic-regression"
    batch_size, eta, sigma = SETTINGS[kind]
    train = spec.train
    assert (train.rounds, train.cohort, train.steps, train.batch_size) == (500, 10, 20, batch_size)
    assert len(spec.seeds) == 5
    data = spec.data.settings
    assert data["test_share"] == 0.5
    assert data["parties"] == (50 if name.endswith("n50") else 10)
    if kind == "mnist":
        assert data["outliers"] == (0.2 if name.endswith("n50") else 0.1)
    assert data.get("samples") == (60_000 if kind == "mnist" else 100)
    assert spec.model.name == ("logistic" if kind == "mnist" else "linear")
    settings_by_method = {method.name: method.settings for method in spec.methods}
    assert set(THEIRS) | {"local", "fedavg", "fedprox", "rfa", "comed", "ditto"} == set(
        settings_by_method
    )
    for method, settings in settings_by_method.items():
        for rate in RATES.get(method, ("eta",)):
            assert settings[rate] == eta, method
        pull = PULLS.get(method, "sigma")
        assert settings.get(pull, sigma) == sigma, method
    for variant in ("fedavg+", "fedgeomed+", "fedcomed+"):
        assert (settings_by_method[variant]["sigma"], settings_by_method[variant]["delta"]) == (
            sigma,
            0.1,
        )


@pytest.mark.parametrize("name", TABLE2)
def test_published_toml_has_the_same_settings(name):
    published, spec = published_results()["table2"], load_spec(name)
    own = published["mnist" if "mnist" in name else "synthetic-regression"]
    train = spec.train
    stated = {key: published[key] for key in ("rounds", "cohort", "steps")}
    assert stated == {"rounds": train.rounds, "cohort": train.cohort, "steps": train.steps}
    assert own["batch_size"] == train.batch_size
    (best,) = [method for method in spec.methods if method.name == published["best"]]
    stated = {"eta": own["eta"], "sigma": own["sigma"], "delta": published["delta"], "lam": 0.0}
    assert best.settings == stated | {"join": "first"}  # As printed in Algorithm 1 (D18).


OF_FILES = ("mnist", "portfolio", "silos", "sent140", "sensitivity")  # Their data may not be here.


@pytest.mark.parametrize(
    "name", [name for name in spec_names() if not any(data in name for data in OF_FILES)]
)
def test_specifications_build(name):
    """Data, model and methods fit together."""
    small = {"data.features": 30} if name == "table2-synthetic-regression" else {}
    ready = prepare(load_spec(name, small), 0)
    assert len(ready.methods) == len(ready.spec.methods)


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize(
    "name", [*spec_names("silos-"), *spec_names("sensitivity-"), "layers-sent140"]
)
def test_specifications_of_real_data_build(name):
    ready = prepare(load_spec(name), 0)
    assert len(ready.methods) == len(ready.spec.methods)


@pytest.mark.parametrize("name", [name for name in spec_names("table2-") if "mnist" in name])
def test_methods_of_mnist_build(name):
    import fedplus as fp

    one, stand_in = load_spec(name), fp.data.load("digits-robust")
    model = build_model(one.model, stand_in, TomlSource())
    made = [build_method(method, model, TomlSource()) for method in one.methods]
    assert len(made) == 13


def test_every_method_is_tuned_with_as_many_candidates():
    budget = grids.load_rules()["budget"]["candidates"]
    spec = load_spec("table2-mnist-robust-n10")
    assert set(grids.load_rules()["grid"]) == {method.name for method in spec.methods}
    for method in spec.methods:
        grid = grids.method_grid(method.name, method.settings)
        count = 1
        for setting, values in grid.items():
            assert setting in METHODS[method.name].settings
            assert len(set(values)) == len(values)
            count *= len(values)
        assert count >= budget, method.name


def test_the_stated_learning_rate_is_in_every_grid():
    """Every grid contains the stated η, so tuning can choose it."""
    spec = load_spec("table2-mnist-robust-n10")
    for method in spec.methods:
        grid = grids.method_grid(method.name, method.settings)
        for rate in RATES.get(method.name, ("eta",)):
            assert any(value == pytest.approx(0.02) for value in grid[rate]), method.name


def test_the_theory_study_satisfies_the_assumptions_of_the_theorems():
    """A minibatch is all of a party's samples, everyone takes part, η ≤ 1/L_f, one step."""
    import numpy as np

    spec = load_spec("theory")
    federation = prepare(spec, 0).federation
    assert set(federation.train.size.tolist()) == {spec.train.batch_size}
    assert (spec.train.cohort, spec.train.steps, spec.train.objective) == (None, 1, True)
    for k in range(federation.parties):
        x = np.insert(federation.train.party(k)[0].astype(float), 0, 1, axis=1)
        steepest = np.linalg.norm(x, 2) ** 2 / len(x)
        assert all(method.settings["eta"] <= 1 / steepest for method in spec.methods)


def test_data_sweeps_vary_settings_of_the_data():
    for sweep, (setting, values) in DATA_SWEEPS.items():
        table, _, key = setting.partition(".")
        assert table == "data"
        assert key in load_spec(f"sensitivity-{sweep}").data.settings
        assert len(values) > 2


def test_an_unknown_specification_is_rejected():
    from fedplus.check import SettingError

    with pytest.raises(SettingError, match="Did you mean theory"):
        specs.spec_path("theori")


@pytest.mark.parametrize("name", spec_names())
def test_specifications_state_how_they_are_trained(name):
    """The specifications state everything that README.md says about training."""
    stated = tomllib.loads(spec_path(name).read_text(encoding="utf-8"))
    assert "seeds" in stated
    assert {"rounds", "batch_size"} < set(stated["train"])
    assert len({"steps", "epochs"} & set(stated["train"])) == 1
    filled_in = load_spec(name).train.model_dump(include=set(SCHEDULE), exclude_none=True)
    assert filled_in == {key: stated["train"][key] for key in SCHEDULE if key in stated["train"]}


@pytest.mark.parametrize("name", spec_names())
def test_specifications_state_every_setting_of_data_model_and_methods(name):
    """Other defaults of the library would not change an experiment."""
    stated = tomllib.loads(spec_path(name).read_text(encoding="utf-8"))
    data, model = stated["data"], stated["model"]
    defaults = SETS[data["name"]].settings
    assert {setting for setting, value in defaults.items() if value is not None} <= set(data)
    assert set(MODELS[model["name"]].settings) <= set(model)
    filled_in = load_spec(name).methods
    for method, complete in zip(stated["methods"], filled_in, strict=True):
        assert set(complete.settings) <= set(method), method["name"]


@pytest.mark.parametrize("committed", sorted(path.name for path in RESULTS.glob("*.toml")))
def test_committed_runs_are_those_of_the_specification(committed):
    """Compare cohort, rounds, local work, batch size and seeds of papers/fed_plus/results/*.toml."""
    ran = tomllib.loads((RESULTS / committed).read_text(encoding="utf-8"))
    name = committed.removesuffix(".toml").removesuffix("-tuned")
    spec = load_spec(name)
    train = spec.train.model_dump(include=set(SCHEDULE), exclude_none=True)
    if committed.endswith("-tuned.toml"):
        train["rounds"] = grids.tuning_rounds(
            spec, GRIDS.get(name.split("-")[0], grids.TABLE2_RULES)
        )
    assert {key: ran["train"][key] for key in SCHEDULE if key in ran["train"]} == train
    assert ran["seeds"] == spec.seeds


SEEDS_OF = {
    "table2": lambda row: f"table2-{row['data']}",
    "sensitivity": lambda row: f"sensitivity-{row['sweep']}",
    "silos": lambda row: f"silos-{row['data']}",
    "attacks": lambda row: "attacks",
    "figure1": lambda row: f"portfolio-{row['setting']}",
    "figure2": lambda row: f"portfolio-{row['setting']}",
    "figure3": lambda row: f"portfolio-{row['setting']}",
    "layers-negatives": lambda row: "layers-negatives",
    "layers-noise": lambda row: "layers-noise",
    "layers-sent140": lambda row: "layers-sent140",
}


@pytest.mark.parametrize("table", SEEDS_OF)
def test_committed_tables_have_the_seeds_and_rounds_of_the_specification(table):
    last: dict[str, float] = {}
    for row in read_csv(RESULTS / f"{table}.csv"):
        name = SEEDS_OF[table](row)
        if row["seeds"] is not None:  # A constant answer, such as the majority class, has none.
            assert row["seeds"] == len(load_spec(name).seeds), row
        last[name] = max(last.get(name, 0), row.get("round", 0))
    if any(last.values()):
        assert last == {name: load_spec(name).train.rounds for name in last}


@pytest.mark.parametrize("name", spec_names("figure4-"))
def test_figure_4_was_run_with_its_cohort_rounds_and_seeds(name):
    """The share of parties that were active at least once follows from the cohort and the seeds."""
    spec, rows = load_spec(name), read_csv(RESULTS / f"{name}.csv")
    train, data = spec.train, spec.data
    parties = data.first or data.settings["parties"]
    active = [first_active_rounds(seed, train.rounds, train.cohort, parties) for seed in spec.seeds]
    trained = [row for row in rows if row["method"] != "majority"]
    for row in trained:
        share = np.mean([(one <= row["round"]).mean() for one in active])
        assert row["active"] == pytest.approx(share, rel=1e-5), row
    assert {row["seeds"] for row in trained} == {len(spec.seeds)}
    assert max(row["round"] for row in trained) == train.rounds
