"""The report in a real browser: charts are drawn, menus work, and nothing is requested."""

import numpy as np
import pytest
from browser import SCHEMES, SIZES, open_page, scrolls_sideways, unlabelled_charts, wait_until
from sample_runs import Sample, study

from fedplus.report.html import write_report

CHARTS = {
    "learning-0", "heat-0", "gains-0", "gains-1", "change-0", "path-0", "norms-0", "aggregator-0",
    "certificate-0",
}  # fmt: skip
CHOICES = {
    "learning": "worst party", "heat": "FedAvg", "gains": "FedAvg", "norms": "FedAvg+",
    "aggregator": "residual", "change": "the party that changes most",
}  # fmt: skip
HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    runs = study(folder, path=True, objective=True)
    return write_report(runs, folder / "report.html", command="fedplus compare spec.toml"), runs


def traces(page, chart):
    return page.evaluate(
        "(id) => document.getElementById(id).data.map((t) => ({type: t.type, name: t.name, x: t.x,"
        " y: t.y, z: t.z, showlegend: t.showlegend}))",
        chart,
    )


def curves(page, chart):
    return [t for t in traces(page, chart) if "±" not in t["name"]]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_all_charts_are_drawn(browser, report, size, scheme):
    path, _ = report
    with open_page(browser, path.as_uri(), size, scheme) as (page, problems):
        drawn = page.evaluate("[...document.querySelectorAll('.js-plotly-plot')].map((e) => e.id)")
        assert set(drawn) == CHARTS
        assert unlabelled_charts(page) == []
        assert not scrolls_sideways(page)
        wide = page.evaluate(
            "[...document.querySelectorAll('.main-svg')].some((e) =>"
            " e.getBoundingClientRect().right > document.documentElement.clientWidth)"
        )
        assert not wide
        assert problems.errors == []
        assert problems.foreign_requests == []


def test_charts_show_the_values_of_the_runs(browser, report):
    path, runs = report
    with open_page(browser, path.as_uri()) as (page, _):
        lines = curves(page, "learning-0")
        assert [line["name"] for line in lines] == ["FedAvg", "FedAvg+", "FedGeoMed+"]
        assert len(traces(page, "learning-0")) == 6
        scores = [[np.mean(line["personal_score"]) for line in run.lines] for run in runs[6:]]
        np.testing.assert_allclose(lines[2]["y"], 100 * np.mean(scores, 0), rtol=6e-4)

        (heat,) = traces(page, "heat-0")
        assert np.array(heat["z"]).shape == (10, 10)
        last = np.mean([run.lines[-1]["personal_score"] for run in runs[6:]], 0)
        np.testing.assert_allclose(np.array(heat["z"])[:, -1], 100 * np.sort(last), rtol=6e-4)

        assert [t["name"] for t in traces(page, "gains-0")] == [
            "gains", "loses", "local SGD", "global model", "personal model",
        ]  # fmt: skip
        assert [t["type"] for t in traces(page, "gains-1")] == ["box"] * 3
        assert [len(line["x"]) for line in curves(page, "change-0")] == [100] * 3
        assert [line["x"] for line in curves(page, "path-0")] == [[0, 0.25, 0.5, 0.75, 1]] * 3
        assert sorted(t["name"] for t in traces(page, "norms-0")) == sorted(
            ["other parties"] * 9 + ["◆ 0"]
        )
        objective = curves(page, "certificate-0")[0]["y"]
        assert objective == sorted(objective, reverse=True)


def test_a_menu_changes_the_chart_and_its_description(browser, report):
    path, _ = report
    with open_page(browser, path.as_uri()) as (page, problems):
        for name, option in CHOICES.items():
            before = traces(page, f"{name}-0")
            label = page.get_attribute(f"#{name}-0", "aria-label")
            page.select_option(f"#{name}-choice", label=option)
            assert traces(page, f"{name}-0") != before
            assert page.get_attribute(f"#{name}-0", "aria-label") != label
        assert problems.errors == []


def test_the_theme_follows_the_system_setting(browser, report):
    path, _ = report
    ink = "getComputedStyle(document.querySelector('#learning-0 .xtick text')).fill"
    with open_page(browser, path.as_uri(), scheme="light") as (page, problems):
        light = page.evaluate(ink)
        page.emulate_media(color_scheme="dark")
        wait_until(page, f"{ink} !== '{light}'")
        assert problems.errors == []


def test_the_report_can_be_printed(browser, report):
    path, _ = report
    width = "document.querySelector('#learning-0')._fullLayout.width"
    with open_page(browser, path.as_uri(), scheme="dark") as (page, problems):
        on_screen = page.evaluate(width)
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        wait_until(page, f"{width} === 680")
        page.emulate_media(media="print")
        assert not page.is_visible("#learning-choice")
        page.emulate_media(media="screen")
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        wait_until(page, f"{width} === {on_screen}")
        assert page.pdf().startswith(b"%PDF")
        assert problems.errors == []


def test_the_report_can_be_used_with_the_keyboard(browser, report):
    path, _ = report
    with open_page(browser, path.as_uri()) as (page, _):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        page.focus("#heat-choice")
        before = traces(page, "heat-0")
        page.keyboard.press("ArrowUp")
        assert traces(page, "heat-0") != before


def test_the_command_can_be_copied(browser, report):
    path, _ = report
    with open_page(browser, path.as_uri()) as (page, _):
        page.click("button[aria-label='Copy the command']")
        wait_until(
            page,
            "['Copied', 'Selected'].includes(document.querySelector('.copied button').textContent)",
        )


def test_names_with_html_are_shown_as_text(browser, tmp_path):
    names = (HOSTILE, "<b>bold</b>", "&lt;i&gt;", '"quoted"')
    run = Sample(parties=4, names=names, label=HOSTILE).write(tmp_path / "run")
    path = write_report([run], tmp_path / "report.html", title=HOSTILE, command=HOSTILE)
    with open_page(browser, path.as_uri()) as (page, problems):
        dialogs = []
        page.on("dialog", lambda dialog: dialogs.append(dialog.dismiss()))
        assert page.title() == HOSTILE
        assert page.locator("img").count() == 0
        shown = page.evaluate(
            "[...document.querySelectorAll('#heat-0 .ytick text')].map((e) => e.textContent)"
        )
        assert "<b>bold</b>" in shown
        assert "&lt;i&gt;" in shown
        assert dialogs == problems.errors == problems.foreign_requests == []


def test_the_policy_blocks_other_scripts(browser, report):
    path, _ = report
    with open_page(browser, path.as_uri()) as (page, problems):
        page.evaluate(
            "() => { const s = document.createElement('script'); s.text = 'window.bad = 1';"
            " document.body.append(s); }"
        )
        assert page.evaluate("window.bad") is None
        assert any("Content Security Policy" in error for error in problems.errors)
        assert page.evaluate("fetch('https://example.org').then(() => 1, () => 0)") == 0


def test_a_large_federation_is_drawn(browser, tmp_path):
    run = Sample(parties=1000, outliers=100, every=25).write(tmp_path / "run")
    path = write_report([run], tmp_path / "report.html")
    with open_page(browser, path.as_uri(), "phone", "dark") as (page, problems):
        assert len(traces(page, "heat-0")[0]["z"]) == 200
        assert len(traces(page, "gains-0")[-1]["x"]) == 60
        assert len(traces(page, "norms-0")) == 23
        assert not scrolls_sideways(page)
        assert problems.errors == []


def test_a_run_without_evaluations_has_a_report(browser, tmp_path):
    run = Sample().write(tmp_path / "run", upto=0, state="running")
    path = write_report([run], tmp_path / "report.html")
    with open_page(browser, path.as_uri()) as (page, problems):
        assert "No run on digits-robust has been evaluated yet." in page.inner_text(".verdict")
        assert problems.errors == []
