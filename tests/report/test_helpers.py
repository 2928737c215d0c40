"""The helpers of the pages' tests: samples grow like a run does, and the browser draws."""

from browser import opened, scrolls_sideways
from samples import Sample, study

from fedplus.experiments.run_folder import ROUNDS, run_folders


def test_a_sample_grows_like_a_run(tmp_path):
    run = Sample().write(tmp_path / "run", upto=30, state="running")
    before = (run.path / ROUNDS).read_bytes()
    Sample().write(tmp_path / "run")
    assert (run.path / ROUNDS).read_bytes().startswith(before)
    assert [line["round"] for line in run.lines] == list(range(10, 101, 10))
    assert run.status["mean"] == run.lines[-1]["personal"]["mean"]


def test_a_study_is_found(tmp_path):
    study(tmp_path, methods=("fedavg", "fedavg+"), seeds=2)
    assert len(run_folders([tmp_path])) == 4


def test_the_browser_tells_what_went_wrong(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        "<p style='width:3000px'>wide<script>console.error('a'); throw Error('b')</script>"
    )
    with opened(browser, page.as_uri(), "phone") as (seen, troubles):
        assert scrolls_sideways(seen)
        assert troubles.errors == ["a", "b"]
        assert troubles.elsewhere == []
