"""Parties that joined after the training, in the report; damaged files are named in one line."""

import pytest
from damaged_runs import intact_run, with_new_parties
from sample_runs import Sample, study

from fedplus.check import SettingError
from fedplus.experiments.cli_spec import spec_from_command
from fedplus.report.report_data import report_data
from fedplus.report.run_data import read_run_data
from fedplus.report.tables import comparison_table


def test_a_run_without_new_parties_has_no_file_and_no_column(tmp_path):
    (run,) = study(tmp_path, ("fedavg",), seeds=1)
    assert read_run_data(run).new_parties is None
    assert "new parties" not in comparison_table([run]).headings
    assert "new_parties" not in spec_from_command("digits-robust", ["fedavg"])[0].model_dump(
        exclude_none=True
    )


def test_the_report_says_who_was_held_out_and_how_they_fare(tmp_path):
    runs = study(tmp_path, ("fedavg", "fedgeomed+"), seeds=2, local=True)
    for run in runs:
        with_new_parties(run)
    data = report_data(runs)
    (section,) = [each for each in data["sections"] if each["id"] == "new-parties"]
    assert section["note"] == "Held out of the training: 8 and 9."
    option = section["options"][1]
    assert "mean accuracy of 80.0 %, against 65.0 % if each trains alone" in option["finding"]
    assert "2 of 4 parties gain and 2 lose" in option["finding"]
    assert option["table"]["rows"][0] == ["9, seed 0", "70.0 %", "80.0 %", "−10.0 points"]
    assert len(option["table"]["rows"]) == 4
    assert [text for text in data["warnings"] if "new party 9 diverged in all rounds" in text]
    assert "new parties" in data["summary"]["head"]


def test_held_out_parties_that_differ_by_seed_are_named_for_each(tmp_path):
    first, second = study(tmp_path, ("fedavg",), seeds=2)
    runs = [with_new_parties(first), with_new_parties(second, names=["3", "4"], local=None)]
    (section,) = [each for each in report_data(runs)["sections"] if each["id"] == "new-parties"]
    assert section["note"] == "Held out of the training: 8 and 9 with seed 0; 3 and 4 with seed 1."


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"names": ["a"], "steps": 1}'])
def test_a_damaged_file_is_named_in_one_line(tmp_path, content):
    run = intact_run(tmp_path / "run")
    (run.path / "new_parties.json").write_text(content)
    with pytest.raises(SettingError, match=r"new_parties\.json") as caught:
        read_run_data(run)
    assert len(str(caught.value).splitlines()) == 1


def test_the_headline_has_the_outliers_of_the_seeds_that_train_them(tmp_path):
    runs = [
        with_new_parties(Sample(seed=seed, outliers=1 - seed).write(tmp_path / str(seed)))
        for seed in (0, 1)
    ]
    score = read_run_data(runs[0]).personal_scores[-1][0]
    assert f"gives it {100 * score:.1f} %" in report_data(runs)["verdict"]
