"""The test helpers work: sample runs grow like real ones, and the browser records problems."""

from browser import open_page, scrolls_sideways
from sample_runs import Sample, study

from fedplus.experiments.run_folder import ROUNDS, find_run_folders


def test_a_sample_run_grows_like_a_real_run(tmp_path):
    run = Sample().write(tmp_path / "run", upto=30, state="running")
    before = (run.path / ROUNDS).read_bytes()
    Sample().write(tmp_path / "run")
    assert (run.path / ROUNDS).read_bytes().startswith(before)
    assert [line["round"] for line in run.lines] == list(range(10, 101, 10))
    assert run.status["mean"] == run.lines[-1]["personal"]["mean"]


def test_the_runs_of_a_sample_study_are_found(tmp_path):
    study(tmp_path, methods=("fedavg", "fedavg+"), seeds=2)
    assert len(find_run_folders([tmp_path])) == 4


def test_the_browser_records_errors_and_wide_pages(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        "<p style='width:3000px'>wide<script>console.error('a'); throw Error('b')</script>"
    )
    with open_page(browser, page.as_uri(), "phone") as (seen, problems):
        assert scrolls_sideways(seen)
        assert problems.errors == ["a", "b"]
        assert problems.foreign_requests == []
