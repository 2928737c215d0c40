"""The page of the board in a real Chromium."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from board_process import running_board

from command import COMMAND, environment
from fedplus.experiments.run_folder import RunFolder
from fedplus.files import write_atomically
from report.browser import (
    SCHEMES,
    SIZES,
    open_page,
    scrolls_sideways,
    unlabelled_charts,
    wait_until,
)
from report.sample_runs import Sample, study

GROW = """
import sys, time
sys.path.insert(0, sys.argv[1])
from report.sample_runs import Sample
for upto in (40, 50, 60):
    time.sleep(0.6)
    Sample(method="ditto", label="Ditto", rounds=60).write(
        sys.argv[2], upto=upto, state="finished" if upto == 60 else "running")
"""
TRACES = "id => (document.getElementById(id).data || []).map(t => ({x: t.x, y: t.y, name: t.name}))"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    top = tmp_path_factory.mktemp("page")
    study(top / "study", methods=("fedavg", "fedgeomed+"), seeds=2, rounds=50)
    Sample(parties=230, rounds=20, names=tuple(f"user-{i}" for i in range(230))).write(top / "many")
    evil = "<img src=x onerror=alert(1)>"
    Sample(method="x<b>", label=evil, rounds=20).write(top / "evil")
    (top / "broken").mkdir()
    (top / "broken" / "status.json").write_text("{")
    bad = Sample(method="rfa", label="RFA", rounds=20).write(top / "bad-lines").path
    (bad / "rounds.jsonl").write_text("{\n")
    return top


@pytest.fixture(scope="module")
def board(folder):
    with running_board(folder) as running:
        yield running


@pytest.fixture(params=SIZES)
def size(request):
    return request.param


@pytest.fixture
def page(browser, board, size):
    with open_page(browser, board.address, size) as (shown, problems):
        shown.set_default_timeout(10_000)
        shown.wait_for_selector("#runs tr")
        yield shown
        assert not scrolls_sideways(shown)
        assert unlabelled_charts(shown) == []
        assert (problems.errors, problems.foreign_requests) == ([], [])


def labels(page):
    return page.locator("#runs td button").all_inner_texts()


def checkbox(page, run):
    return page.locator(f'tr[data-run="{run}"] input')


def name_button(page, run):
    return page.locator(f'tr[data-run="{run}"] button')


def traces(page, element, count, points=1, seconds=10):
    """Wait until a chart has so many traces with so many points, and return them."""
    wait_until(
        page,
        "([id, n, k]) => { const d = document.getElementById(id).data;"
        " return d && d.length === n && d.every(t => t.x.length >= k); }",
        arg=[element, count, points],
        seconds=seconds,
    )
    return page.evaluate(TRACES, element)


def test_the_list_shows_all_runs_with_their_scores(page):
    assert len(labels(page)) == 8
    row = page.locator('tr[data-run="study/fedavg-1"] td').all_inner_texts()
    status = Sample(method="fedavg", seed=1, rounds=50).line(50)["personal"]
    assert row[2:6] == [
        "finished", f"{100 * status['mean']:.1f} %", f"{100 * status['worst']:.1f} %", "50 / 50",
    ]  # fmt: skip
    assert page.locator('tr[data-run="broken"] .state').inner_text() == "damaged"
    assert page.locator("#connection").inner_text() == "live"


def test_the_list_shows_why_a_run_is_damaged_or_failed(browser, tmp_path):
    reason = "DivergedError: party 3 has NaN in round 20. Lower eta."
    below = "The run ends below the majority class: mean accuracy 30.0 % against 50.0 %."
    Sample(rounds=20).write(tmp_path / "failed", upto=10, state="failed", message=reason)
    Sample(rounds=20).write(tmp_path / "below", message=below)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "status.json").write_text("{")
    with running_board(tmp_path) as board, open_page(browser, board.address) as (shown, problems):
        shown.wait_for_selector("#runs tr")
        messages = {
            run: shown.locator(f'tr[data-run="{run}"] .why')
            for run in ("failed", "below", "damaged")
        }
        assert messages["failed"].inner_text() == reason
        assert messages["below"].inner_text() == below
        assert "status.json cannot be read" in messages["damaged"].inner_text()
        name_button(shown, "failed").click()
        shown.wait_for_selector("#run-trouble:not([hidden])")
        assert shown.locator("#run-trouble").inner_text() == reason
        assert (problems.errors, problems.foreign_requests) == ([], [])


def test_the_search_filters_the_list(page):
    page.fill("#search", "study geomed")
    wait_until(page, "document.querySelectorAll('#runs tr').length === 2")
    assert page.locator("#count").inner_text() == "1–2 of 2 (8 in all)"
    page.fill("#search", "nothing like this")
    page.wait_for_selector("#nothing:visible")
    page.reload()
    assert page.input_value("#search") == "nothing like this"


def test_a_heading_sorts_the_list(page):
    head = page.locator('th[data-sort="mean"]')
    for order in ("descending", "ascending"):
        head.locator("button").press("Enter")
        page.wait_for_selector(f'th[data-sort="mean"][aria-sort="{order}"]')
        means = page.locator("#runs td:nth-child(4)").all_inner_texts()
        known = [float(text.split()[0]) for text in means if text != "–"]
        assert known == sorted(known, reverse=order == "descending")
        assert means[-1] == "–"
    assert page.locator("th[aria-sort]").count() == 1


def test_the_curves_of_two_runs_are_drawn_together(page):
    checkbox(page, "study/fedavg-0").check()
    checkbox(page, "study/fedgeomed+-1").check()
    drawn = traces(page, "curves", 2, points=5)
    samples = [Sample(method="fedavg", rounds=50), Sample(method="fedgeomed+", seed=1, rounds=50)]
    assert [trace["name"] for trace in drawn] == ["FedAvg · seed 0", "FedGeoMed+ · seed 1"]
    for value, key in (("mean", "personal"), ("worst", "personal"), ("global", "global")):
        page.select_option("#show", value)
        wait_until(page, f"document.getElementById('curves').ariaLabel.includes('{value}')")
        page.wait_for_timeout(100)
        for trace, sample in zip(traces(page, "curves", 2), samples, strict=True):
            lines = [sample.line(t) for t in trace["x"]]
            statistic = "mean" if value == "global" else value
            assert trace["x"] == [10, 20, 30, 40, 50]
            assert trace["y"] == pytest.approx([100 * line[key][statistic] for line in lines])
    checkbox(page, "study/fedavg-0").uncheck()
    assert len(traces(page, "curves", 1)) == 1
    page.reload()
    assert traces(page, "curves", 1)[0]["name"] == "FedGeoMed+ · seed 1"
    page.click("#clear")
    page.wait_for_selector("#curves", state="hidden")


def test_a_run_shows_its_parties_and_the_history_of_one(page):
    sample = Sample(method="fedgeomed+", rounds=50)
    name_button(page, "study/fedgeomed+-0").press("Enter")
    wait_until(page, "document.querySelectorAll('#parties tr').length === 10")
    last = sample.line(50)
    wait_until(page, "document.querySelector('#parties tr td:nth-child(2)').innerText !== '–'")
    cells = page.locator("#parties tr").nth(3).locator("td").all_inner_texts()
    assert cells[0] == "3"
    assert cells[1] == f"{100 * last['personal_score'][3]:.1f} %"
    assert cells[2] == f"{100 * last['global_score'][3]:.1f} %"
    assert float(cells[4]) == pytest.approx(last["v_norm"][3], rel=1e-3)
    assert "outlier" in page.locator("#parties tr").nth(0).inner_text()
    page.locator("#parties tr").nth(3).locator("button").press("Enter")
    traces(page, "party-score", 3, points=2)
    wait_until(page, "document.getElementById('party-score').data[0].x.length === 5")
    personal, global_, _ = traces(page, "party-score", 3)
    lines = [sample.line(t) for t in (10, 20, 30, 40, 50)]
    assert personal["y"] == pytest.approx([100 * line["personal_score"][3] for line in lines])
    assert global_["y"] == pytest.approx([100 * line["global_score"][3] for line in lines])
    assert traces(page, "party-loss", 1)[0]["y"] == pytest.approx(
        [line["personal_loss"][3] for line in lines]
    )
    assert traces(page, "party-norm", 1)[0]["y"] == pytest.approx(
        [line["v_norm"][3] for line in lines]
    )
    page.locator("#parties tr").nth(1).locator("button").click()
    wait_until(page, "document.getElementById('party-title').innerText === 'Party 1'")
    wait_until(
        page,
        "y => Math.abs(document.getElementById('party-norm').data[0].y[4] - y) < 1e-9",
        arg=lines[-1]["v_norm"][1],
    )


def test_the_parties_of_a_large_federation_can_be_searched(page):
    name_button(page, "many").click()
    wait_until(page, "document.querySelectorAll('#parties tr').length === 100")
    page.click("#more")
    wait_until(page, "document.querySelectorAll('#parties tr').length === 200")
    page.fill("#party-search", "user-22")
    wait_until(page, "document.querySelectorAll('#parties tr').length === 11")
    assert page.locator("#party-count").inner_text() == "11 of 230"
    page.locator('#party-heads button:has-text("Personal")').click()
    page.wait_for_selector('#party-heads th[data-sort="personal"][aria-sort="ascending"]')


def test_names_with_html_are_shown_as_text(page):
    assert "<img src=x onerror=alert(1)>" in labels(page)
    checkbox(page, "evil").check()
    name_button(page, "evil").click()
    traces(page, "curves", 1)
    assert page.locator("#run-title").inner_text() == "<img src=x onerror=alert(1)>"
    assert page.locator("#curves .legendtext").inner_html().count("<img") == 0
    assert page.locator("img[src='x']").count() == 0


def test_damaged_runs_show_a_message(page):
    name_button(page, "bad-lines").click()
    page.wait_for_selector("#run-trouble:visible")
    assert "damaged" in page.locator("#run-trouble").inner_text()
    checkbox(page, "bad-lines").check()
    checkbox(page, "study/fedavg-0").check()
    wait_until(page, "(document.getElementById('curves').data || []).length === 2")
    wait_until(page, "document.getElementById('curves').data[1].x.length === 5")
    assert "damaged" in page.locator("#curves-trouble").inner_text()
    name_button(page, "broken").click()
    wait_until(page, "document.getElementById('run-trouble').innerText.includes('status.json')")


def test_the_page_updates_while_another_process_writes(page, folder, size, request):
    run = folder / "live" / size
    sample = Sample(method="ditto", label="Ditto", rounds=60)
    sample.write(run, upto=30, state="running")
    row = f'tr[data-run="live/{size}"]'
    page.wait_for_selector(row)
    assert page.locator(f"{row} .state").inner_text() == "running"
    checkbox(page, f"live/{size}").check()
    name_button(page, f"live/{size}").click()
    wait_until(page, "document.querySelectorAll('#parties tr').length === 10")
    page.locator("#parties tr").nth(2).locator("button").click()
    traces(page, "curves", 1, points=3)
    tests = str(Path(__file__).parents[1])
    writer = subprocess.Popen([sys.executable, "-c", GROW, tests, str(run)])
    request.addfinalizer(writer.wait)
    focused = name_button(page, f"live/{size}")
    focused.focus()
    wait_until(page, "document.getElementById('curves').data[0].x.length === 6")
    page.wait_for_selector(f'{row} .state[data-state="finished"]')
    assert writer.wait() == 0
    assert traces(page, "curves", 1)[0]["x"] == [10, 20, 30, 40, 50, 60]
    wait_until(page, "document.getElementById('party-loss').data[0].x.length === 6")
    assert traces(page, "party-loss", 1)[0]["y"][-1] == pytest.approx(
        sample.line(60)["personal_loss"][2]
    )
    assert page.locator(f"{row} td").nth(5).inner_text() == "60 / 60"
    assert page.locator("#run-state").inner_text() == "finished"
    assert focused.evaluate("button => button === document.activeElement")


def test_the_page_updates_while_a_real_run_trains(browser, tmp_path):
    """The curve of a ``fedplus run`` in another process grows, and ends with the file's values."""
    command = [
        "run", "digits-robust", "-m", "fedgeomed+", "--no-local", "--rounds", "6000",
        "--set", "evaluate_every=100", "--out", str(tmp_path / "runs" / "real"),
    ]  # fmt: skip
    (tmp_path / "runs").mkdir()
    with (
        running_board(tmp_path / "runs") as board,
        open_page(browser, board.address) as (page, problems),
        subprocess.Popen([*COMMAND, *command], env=environment(), stdout=subprocess.PIPE) as run,
    ):
        page.wait_for_selector('tr[data-run="real"]', timeout=90_000)
        checkbox(page, "real").check()
        name_button(page, "real").click()
        seen = len(traces(page, "curves", 1, points=1, seconds=60)[0]["x"])
        grown = traces(page, "curves", 1, points=seen + 3, seconds=60)[0]
        going_on = page.locator("#run-state").inner_text()
        page.wait_for_selector('tr[data-run="real"] .state[data-state="finished"]', timeout=120_000)
        last = traces(page, "curves", 1, points=60)[0]
        assert run.wait(60) == 0
        assert (problems.errors, problems.foreign_requests) == ([], [])
    lines = RunFolder(tmp_path / "runs" / "real").lines
    assert going_on == "running"
    assert last["x"] == [line["round"] for line in lines]
    shown = [100 * line["personal"]["mean"] for line in lines]
    assert last["y"] == pytest.approx(shown)
    assert grown["y"] == pytest.approx(shown[: len(grown["y"])])


def test_the_report_opens_and_cannot_send_requests_to_the_board(page, browser, board):
    name_button(page, "study/fedgeomed+-0").click()
    page.wait_for_selector("#report:visible")
    address = page.locator("#report").evaluate("a => a.href")
    with open_page(browser, address) as (report, problems):
        report.wait_for_selector(".js-plotly-plot")
        assert (problems.errors, problems.foreign_requests) == ([], [])
        request = f"fetch('{board.address}api/runs').then(() => 'answered', () => 'refused')"
        assert report.evaluate(request) == "refused"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_background_follows_the_colour_scheme(browser, board, scheme):
    with open_page(browser, board.address, scheme=scheme) as (page, _):
        page.wait_for_selector("#runs tr")
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == {"light": "rgb(251, 251, 250)", "dark": "rgb(20, 24, 28)"}[scheme]


def test_a_lost_connection_is_shown_and_restored(browser, tmp_path):
    run = tmp_path / "run"
    sample = Sample(rounds=60)
    sample.write(run, upto=20, state="running")
    with running_board(tmp_path) as first:
        port = first.host_and_port[1]
        with open_page(browser, first.address) as (page, _):
            page.set_default_timeout(15_000)
            checkbox(page, "run").check()
            traces(page, "curves", 1, points=2)
            first.process.send_signal(2)
            first.process.wait()
            page.wait_for_selector('#connection[data-state="lost"]')
            sample.write(run, upto=60)
            with running_board(tmp_path, port=port):
                page.wait_for_selector('#connection[data-state="live"]')
                wait_until(page, "document.getElementById('curves').data[0].x.length === 6")
                page.wait_for_selector('#runs .state[data-state="finished"]')


def test_many_runs_are_listed_in_pages(browser, tmp_path):
    for i in range(60):
        (tmp_path / f"{i:02}").mkdir()
        status = json.dumps({"label": f"run {i:02}", "state": "finished"}).encode()
        write_atomically(tmp_path / f"{i:02}" / "status.json", status)
    with (
        running_board(tmp_path) as board,
        open_page(browser, board.address + "#sort=label&order=rising") as (page, problems),
    ):
        wait_until(page, "document.querySelectorAll('#runs tr').length === 50")
        assert page.locator("#previous").is_disabled()
        page.click("#next")
        wait_until(page, "document.querySelectorAll('#runs tr').length === 10")
        assert labels(page)[0] == "run 50"
        assert page.locator("#next").is_disabled()
        assert problems.errors == []
