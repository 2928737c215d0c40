"""Figures 1 to 3, from a few rounds of two methods on random prices."""

import csv
import io

import numpy as np
import pytest
from papers.fed_plus.registry import STUDIES
from papers.fed_plus.specs import load_spec, spec_names
from papers.fed_plus.study import StudyOptions

from fedplus.data.sets import portfolio
from fedplus.experiments.runner import prepare, run_all
from papers.fed_plus import figure1, figure2, figure3, portfolio_runs

FIGURES = (figure1, figure2, figure3)


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Return the options of a study that is trained: random prices of ten sectors, two methods."""
    rng = np.random.default_rng(0)
    tickers = sorted({t for names in portfolio.SECTORS.values() for t in names.split()})
    close = np.exp(np.cumsum(0.02 * rng.standard_normal((140, len(tickers))), axis=0))
    prices = np.stack([close, 1.01 * close, 0.99 * close], axis=-1).astype(np.float32)
    found = StudyOptions(tmp_path_factory.mktemp("paper") / "figure1", seeds=(0, 1), quick=True)

    def study_specs(options):
        whole = load_spec("portfolio-long", portfolio_runs.QUICK, options.seeds)
        methods = [one for one in whole.methods if one.name in ("local", "fedavg")]
        return {"portfolio-long": whole.model_copy(update={"methods": methods})}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portfolio, "load_source", lambda sources: (tickers, prices))
        patch.setattr(portfolio_runs, "study_specs", study_specs)
        for name, one in study_specs(found).items():
            run_all(
                one,
                portfolio_runs.with_shared_folder(found).folder / name,
                on_progress=lambda *progress: None,
            )
        yield found


@pytest.fixture(scope="module")
def results(options, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    for figure in FIGURES:
        for name, content in figure.collect(options).items():
            (folder / name).write_text(content, encoding="utf-8")
    return folder


def read_rows(results, name):
    return list(csv.DictReader(io.StringIO((results / name).read_text(encoding="utf-8"))))


def test_the_two_specifications_differ_only_in_rounds_and_steps():
    assert {"figure1", "figure2", "figure3"} <= set(STUDIES)
    specs = [load_spec(name) for name in spec_names(portfolio_runs.PREFIX)]
    assert [spec.data.judged_on for spec in specs] == ["train", "train"]
    assert [spec.train.steps for spec in specs] == [400, 20]
    long, short = specs
    assert (long.data, long.model, long.methods) == (short.data, short.model, short.methods)


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", spec_names(portfolio_runs.PREFIX))
def test_the_specifications_build(name):
    ready = prepare(load_spec(name), 0)
    assert ready.federation.parties == 10
    assert ready.model.name == "eiie"
    assert ready.federation.test is ready.federation.train


def test_figure_1_has_every_round_and_no_change_without_fusion(options, results):
    found = read_rows(results, "figure1.csv")
    for method in ("local", "fedavg"):
        mine = [one for one in found if one["method"] == method]
        assert [float(one["round"]) for one in mine] == [1, 2, 3, 4]
        change = [float(one["change_std"]) for one in mine]
        assert all(c == 0 for c in change) if method == "local" else all(c > 0 for c in change)


def test_figure_2_is_the_mean_over_parties_and_seeds_on_training_days(options, results):
    found = read_rows(results, "figure2.csv")
    runs = [run for run in portfolio_runs.runs(options) if run.method == "fedavg"]
    assert [run.seed for run in runs] == [0, 1]
    last = [np.mean(run.lines[-1]["personal_score"]) for run in runs]
    mine = [one for one in found if one["method"] == "fedavg"][-1]
    assert float(mine["mean"]) == pytest.approx(1e4 * np.mean(last), rel=1e-4)
    assert float(mine["least"]) == pytest.approx(1e4 * np.min(last), rel=1e-4)
    assert runs[0].folder.parties["test"] == runs[0].folder.parties["train"]
    aside = read_rows(results, "figure2-held-out.csv")
    assert {one["method"] for one in aside} == {"local", "fedavg"}
    assert all(np.isfinite(float(one["test"])) for one in aside)


def test_figure_3_ends_at_the_aggregate(options, results):
    found = [one for one in read_rows(results, "figure3.csv") if one["method"] == "fedavg"]
    assert [float(one["lambda"]) for one in found] == [0, 0.25, 0.5, 0.75, 1]
    runs = [run for run in portfolio_runs.runs(options) if run.method == "fedavg"]
    after = np.mean([np.mean(run.lines[-1]["global_score"]) for run in runs])
    before = np.mean([np.mean(run.lines[-2]["global_score"]) for run in runs])
    assert float(found[-1]["mean"]) == pytest.approx(1e4 * after, rel=1e-3)
    assert float(found[-1]["before"]) == pytest.approx(1e4 * before, rel=1e-3)


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_and_tables_need_only_the_small_files(figure, results, tmp_path):
    name = figure.STUDY.name
    drawn = figure.draw(results)[name]
    drawn.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000
    text = figure.blocks(results)[name]
    assert "no fusion" in text
    assert "FedAvg" in text
    assert not figure.draw(tmp_path)
    assert not figure.blocks(tmp_path)
