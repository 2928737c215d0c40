"""The page in a real Chromium."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from boards import served

from command import COMMAND, environment
from fedplus.experiments.run_folder import RunFolder
from fedplus.files import write_atomically
from report.browser import SCHEMES, SIZES, opened, scrolls_sideways, unlabelled, wait
from report.samples import Sample, study

GROW = """
import sys, time
sys.path.insert(0, sys.argv[1])
from report.samples import Sample
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
    with served(folder) as running:
        yield running


@pytest.fixture(params=SIZES)
def size(request):
    return request.param


@pytest.fixture
def page(browser, board, size):
    with opened(browser, board.address, size) as (shown, troubles):
        shown.set_default_timeout(10_000)
        shown.wait_for_selector("#runs tr")
        yield shown
        assert not scrolls_sideways(shown)
        assert unlabelled(shown) == []
        assert (troubles.errors, troubles.elsewhere) == ([], [])


def labels(page):
    return page.locator("#runs td button").all_inner_texts()


def box(page, run):
    return page.locator(f'tr[data-run="{run}"] input')


def name(page, run):
    return page.locator(f'tr[data-run="{run}"] button')


def traces(page, element, count, points=1, seconds=10):
    """What is drawn, once it is."""
    wait(
        page,
        "([id, n, k]) => { const d = document.getElementById(id).data;"
        " return d && d.length === n && d.every(t => t.x.length >= k); }",
        arg=[element, count, points],
        seconds=seconds,
    )
    return page.evaluate(TRACES, element)


def test_the_list(page):
    assert len(labels(page)) == 8
    row = page.locator('tr[data-run="study/fedavg-1"] td').all_inner_texts()
    status = Sample(method="fedavg", seed=1, rounds=50).line(50)["personal"]
    assert row[2:6] == [
        "finished", f"{100 * status['mean']:.1f} %", f"{100 * status['worst']:.1f} %", "50 / 50",
    ]  # fmt: skip
    assert page.locator('tr[data-run="broken"] .state').inner_text() == "damaged"
    assert page.locator("#connection").inner_text() == "live"


def test_the_list_says_why_a_run_is_damaged_or_failed(browser, tmp_path):
    why = "DivergedError: party 3 has NaN in round 20. Lower eta."
    below = "The run ends below the majority class: mean accuracy 30.0 % against 50.0 %."
    Sample(rounds=20).write(tmp_path / "failed", upto=10, state="failed", message=why)
    Sample(rounds=20).write(tmp_path / "below", message=below)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "status.json").write_text("{")
    with served(tmp_path) as made, opened(browser, made.address) as (shown, troubles):
        shown.wait_for_selector("#runs tr")
        said = {
            run: shown.locator(f'tr[data-run="{run}"] .why')
            for run in ("failed", "below", "damaged")
        }
        assert said["failed"].inner_text() == why
        assert said["below"].inner_text() == below
        assert "status.json cannot be read" in said["damaged"].inner_text()
        name(shown, "failed").click()
        shown.wait_for_selector("#run-trouble:not([hidden])")
        assert shown.locator("#run-trouble").inner_text() == why
        assert (troubles.errors, troubles.elsewhere) == ([], [])


def test_search(page):
    page.fill("#search", "study geomed")
    wait(page, "document.querySelectorAll('#runs tr').length === 2")
    assert page.locator("#count").inner_text() == "1–2 of 2 (8 in all)"
    page.fill("#search", "nothing like this")
    page.wait_for_selector("#nothing:visible")
    page.reload()
    assert page.input_value("#search") == "nothing like this"


def test_sort(page):
    head = page.locator('th[data-sort="mean"]')
    for order in ("descending", "ascending"):
        head.locator("button").press("Enter")
        page.wait_for_selector(f'th[data-sort="mean"][aria-sort="{order}"]')
        means = page.locator("#runs td:nth-child(4)").all_inner_texts()
        known = [float(text.split()[0]) for text in means if text != "–"]
        assert known == sorted(known, reverse=order == "descending")
        assert means[-1] == "–"
    assert page.locator("th[aria-sort]").count() == 1


def test_two_runs_one_over_the_other(page):
    box(page, "study/fedavg-0").check()
    box(page, "study/fedgeomed+-1").check()
    drawn = traces(page, "curves", 2, points=5)
    samples = [Sample(method="fedavg", rounds=50), Sample(method="fedgeomed+", seed=1, rounds=50)]
    assert [trace["name"] for trace in drawn] == ["FedAvg · seed 0", "FedGeoMed+ · seed 1"]
    for value, key in (("mean", "personal"), ("worst", "personal"), ("global", "global")):
        page.select_option("#show", value)
        wait(page, f"document.getElementById('curves').ariaLabel.includes('{value}')")
        page.wait_for_timeout(100)
        for trace, sample in zip(traces(page, "curves", 2), samples, strict=True):
            lines = [sample.line(t) for t in trace["x"]]
            inside = "mean" if value == "global" else value
            assert trace["x"] == [10, 20, 30, 40, 50]
            assert trace["y"] == pytest.approx([100 * line[key][inside] for line in lines])
    box(page, "study/fedavg-0").uncheck()
    assert len(traces(page, "curves", 1)) == 1
    page.reload()
    assert traces(page, "curves", 1)[0]["name"] == "FedGeoMed+ · seed 1"
    page.click("#clear")
    page.wait_for_selector("#curves", state="hidden")


def test_a_run_its_parties_and_one_partys_history(page):
    sample = Sample(method="fedgeomed+", rounds=50)
    name(page, "study/fedgeomed+-0").press("Enter")
    wait(page, "document.querySelectorAll('#parties tr').length === 10")
    last = sample.line(50)
    wait(page, "document.querySelector('#parties tr td:nth-child(2)').innerText !== '–'")
    cells = page.locator("#parties tr").nth(3).locator("td").all_inner_texts()
    assert cells[0] == "3"
    assert cells[1] == f"{100 * last['personal_score'][3]:.1f} %"
    assert cells[2] == f"{100 * last['global_score'][3]:.1f} %"
    assert float(cells[4]) == pytest.approx(last["v_norm"][3], rel=1e-3)
    assert "outlier" in page.locator("#parties tr").nth(0).inner_text()
    page.locator("#parties tr").nth(3).locator("button").press("Enter")
    traces(page, "party-score", 3, points=2)
    wait(page, "document.getElementById('party-score').data[0].x.length === 5")
    personal, shared, _ = traces(page, "party-score", 3)
    lines = [sample.line(t) for t in (10, 20, 30, 40, 50)]
    assert personal["y"] == pytest.approx([100 * line["personal_score"][3] for line in lines])
    assert shared["y"] == pytest.approx([100 * line["global_score"][3] for line in lines])
    assert traces(page, "party-loss", 1)[0]["y"] == pytest.approx(
        [line["personal_loss"][3] for line in lines]
    )
    assert traces(page, "party-norm", 1)[0]["y"] == pytest.approx(
        [line["v_norm"][3] for line in lines]
    )
    page.locator("#parties tr").nth(1).locator("button").click()
    wait(page, "document.getElementById('party-title').innerText === 'Party 1'")
    wait(
        page,
        "y => Math.abs(document.getElementById('party-norm').data[0].y[4] - y) < 1e-9",
        arg=lines[-1]["v_norm"][1],
    )


def test_many_parties_are_searched(page):
    name(page, "many").click()
    wait(page, "document.querySelectorAll('#parties tr').length === 100")
    page.click("#more")
    wait(page, "document.querySelectorAll('#parties tr').length === 200")
    page.fill("#party-search", "user-22")
    wait(page, "document.querySelectorAll('#parties tr').length === 11")
    assert page.locator("#party-count").inner_text() == "11 of 230"
    page.locator('#party-heads button:has-text("Personal")').click()
    page.wait_for_selector('#party-heads th[data-sort="personal"][aria-sort="ascending"]')


def test_names_are_text_and_never_markup(page):
    assert "<img src=x onerror=alert(1)>" in labels(page)
    box(page, "evil").check()
    name(page, "evil").click()
    traces(page, "curves", 1)
    assert page.locator("#run-title").inner_text() == "<img src=x onerror=alert(1)>"
    assert page.locator("#curves .legendtext").inner_html().count("<img") == 0
    assert page.locator("img[src='x']").count() == 0


def test_damage_is_shown(page):
    name(page, "bad-lines").click()
    page.wait_for_selector("#run-trouble:visible")
    assert "damaged" in page.locator("#run-trouble").inner_text()
    box(page, "bad-lines").check()
    box(page, "study/fedavg-0").check()
    wait(page, "(document.getElementById('curves').data || []).length === 2")
    wait(page, "document.getElementById('curves').data[1].x.length === 5")
    assert "damaged" in page.locator("#curves-trouble").inner_text()
    name(page, "broken").click()
    wait(page, "document.getElementById('run-trouble').innerText.includes('status.json')")


def test_live_while_another_process_writes(page, folder, size, request):
    run = folder / "live" / size
    sample = Sample(method="ditto", label="Ditto", rounds=60)
    sample.write(run, upto=30, state="running")
    row = f'tr[data-run="live/{size}"]'
    page.wait_for_selector(row)
    assert page.locator(f"{row} .state").inner_text() == "running"
    box(page, f"live/{size}").check()
    name(page, f"live/{size}").click()
    wait(page, "document.querySelectorAll('#parties tr').length === 10")
    page.locator("#parties tr").nth(2).locator("button").click()
    traces(page, "curves", 1, points=3)
    tests = str(Path(__file__).parents[1])
    writer = subprocess.Popen([sys.executable, "-c", GROW, tests, str(run)])
    request.addfinalizer(writer.wait)
    focused = name(page, f"live/{size}")
    focused.focus()
    wait(page, "document.getElementById('curves').data[0].x.length === 6")
    page.wait_for_selector(f'{row} .state[data-state="finished"]')
    assert writer.wait() == 0
    assert traces(page, "curves", 1)[0]["x"] == [10, 20, 30, 40, 50, 60]
    wait(page, "document.getElementById('party-loss').data[0].x.length === 6")
    assert traces(page, "party-loss", 1)[0]["y"][-1] == pytest.approx(
        sample.line(60)["personal_loss"][2]
    )
    assert page.locator(f"{row} td").nth(5).inner_text() == "60 / 60"
    assert page.locator("#run-state").inner_text() == "finished"
    assert focused.evaluate("button => button === document.activeElement")


def test_live_while_a_real_run_goes_on(browser, tmp_path):
    """fedplus run in another process: its curve grows, and ends as the file says."""
    command = [
        "run", "digits-robust", "-m", "fedgeomed+", "--no-local", "--rounds", "6000",
        "--set", "evaluate_every=100", "--out", str(tmp_path / "runs" / "real"),
    ]  # fmt: skip
    (tmp_path / "runs").mkdir()
    with (
        served(tmp_path / "runs") as board,
        opened(browser, board.address) as (page, troubles),
        subprocess.Popen([*COMMAND, *command], env=environment(), stdout=subprocess.PIPE) as run,
    ):
        page.wait_for_selector('tr[data-run="real"]', timeout=90_000)
        box(page, "real").check()
        name(page, "real").click()
        seen = len(traces(page, "curves", 1, points=1, seconds=60)[0]["x"])
        grown = traces(page, "curves", 1, points=seen + 3, seconds=60)[0]
        going_on = page.locator("#run-state").inner_text()
        page.wait_for_selector('tr[data-run="real"] .state[data-state="finished"]', timeout=120_000)
        last = traces(page, "curves", 1, points=60)[0]
        assert run.wait(60) == 0
        assert (troubles.errors, troubles.elsewhere) == ([], [])
    lines = RunFolder(tmp_path / "runs" / "real").lines
    assert going_on == "running"
    assert last["x"] == [line["round"] for line in lines]
    shown = [100 * line["personal"]["mean"] for line in lines]
    assert last["y"] == pytest.approx(shown)
    assert grown["y"] == pytest.approx(shown[: len(grown["y"])])


def test_the_report_opens_and_cannot_ask_the_board(page, browser, board):
    name(page, "study/fedgeomed+-0").click()
    page.wait_for_selector("#report:visible")
    address = page.locator("#report").evaluate("a => a.href")
    with opened(browser, address) as (report, troubles):
        report.wait_for_selector(".js-plotly-plot")
        assert (troubles.errors, troubles.elsewhere) == ([], [])
        asked = f"fetch('{board.address}api/runs').then(() => 'told', () => 'refused')"
        assert report.evaluate(asked) == "refused"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_words_can_be_read_on_their_ground(browser, board, scheme):
    with opened(browser, board.address, scheme=scheme) as (page, _):
        page.wait_for_selector("#runs tr")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(251, 251, 250)", "dark": "rgb(20, 24, 28)"}[scheme]


def test_a_lost_connection_is_told_and_mended(browser, tmp_path):
    run = tmp_path / "run"
    sample = Sample(rounds=60)
    sample.write(run, upto=20, state="running")
    with served(tmp_path) as first:
        port = first.place[1]
        with opened(browser, first.address) as (page, _):
            page.set_default_timeout(15_000)
            box(page, "run").check()
            traces(page, "curves", 1, points=2)
            first.process.send_signal(2)
            first.process.wait()
            page.wait_for_selector('#connection[data-state="lost"]')
            sample.write(run, upto=60)
            with served(tmp_path, port=port):
                page.wait_for_selector('#connection[data-state="live"]')
                wait(page, "document.getElementById('curves').data[0].x.length === 6")
                page.wait_for_selector('#runs .state[data-state="finished"]')


def test_pages_of_many_runs(browser, tmp_path):
    for i in range(60):
        (tmp_path / f"{i:02}").mkdir()
        status = json.dumps({"label": f"run {i:02}", "state": "finished"}).encode()
        write_atomically(tmp_path / f"{i:02}" / "status.json", status)
    with (
        served(tmp_path) as board,
        opened(browser, board.address + "#sort=label&order=rising") as (page, troubles),
    ):
        wait(page, "document.querySelectorAll('#runs tr').length === 50")
        assert page.locator("#previous").is_disabled()
        page.click("#next")
        wait(page, "document.querySelectorAll('#runs tr').length === 10")
        assert labels(page)[0] == "run 50"
        assert page.locator("#next").is_disabled()
        assert troubles.errors == []
