"""Federations from pandas and polars data frames (``data/tables.py``)."""

from decimal import Decimal

import numpy as np
import pandas
import polars
import pytest
from hospital_data import COLUMNS, FRAME, assert_equal_federations

import fedplus as fp
from fedplus.data import Federation

RNG = np.random.default_rng(1)


def test_pandas_and_polars_give_the_same_federation():
    from_pandas = Federation.from_frame(FRAME, party="hospital", target="outcome", seed=4)
    frame = polars.DataFrame(COLUMNS)
    from_polars = Federation.from_frame(frame, party="hospital", target="outcome", seed=4)
    assert_equal_federations(from_pandas, from_polars)
    assert from_pandas.names == ("east", "north", "south")
    assert (from_pandas.train.size + from_pandas.test.size).tolist() == [20, 30, 50]
    assert from_pandas.info.classes == ("ill", "well")


def test_each_row_keeps_its_label():
    federation = Federation.from_frame(FRAME, party="hospital", target="outcome", standardise="no")
    expected = {
        (float(np.float32(a)), float(np.float32(d))): o
        for a, d, o in zip(FRAME["age"], FRAME["dose"], FRAME["outcome"], strict=True)
    }
    for split in (federation.train, federation.test):
        for (age, dose), y in zip(split.x.tolist(), split.y, strict=True):
            assert expected[age, dose] == federation.info.classes[y]


def test_fractions_are_predicted_as_numbers_and_whole_numbers_are_classes():
    frame = FRAME.drop(columns="outcome")
    regression = Federation.from_frame(frame, party="hospital", target="dose")
    assert regression.train.y.dtype == np.float32
    assert regression.info.classes == ()
    frame = frame.assign(grade=RNG.choice([2, 5, 9], 100))
    classes = Federation.from_frame(frame, party="hospital", target="grade")
    assert classes.info.classes == ("2", "5", "9")
    assert set(classes.train.y.tolist()) == {0, 1, 2}
    amounts = Federation.from_frame(frame, party="hospital", target="grade", task="regression")
    assert set(amounts.train.y.tolist()) == {2.0, 5.0, 9.0}


def test_missing_values_are_rejected_or_replaced_with_the_training_mean():
    gaps = FRAME.astype({"age": float})
    gaps.loc[::7, "age"] = np.nan
    with pytest.raises(fp.SettingError, match=r"column 'age' must be present in every row, got 15"):
        Federation.from_frame(gaps, party="hospital", target="outcome")
    settings = {"missing": "mean", "standardise": False}
    federation = Federation.from_frame(gaps, party="hospital", target="outcome", **settings)
    ages = federation.train.x[:, 0]
    imputed = {float(age) for age in ages} - set(gaps["age"].dropna().tolist())
    known = ages[np.isin(ages, list(gaps["age"].dropna()))]
    assert list(imputed) == [pytest.approx(known.mean(), rel=1e-6)]
    nulls = polars.DataFrame(
        COLUMNS | {"age": [None if i % 7 == 0 else a for i, a in enumerate(COLUMNS["age"])]}
    )
    assert_equal_federations(
        federation,
        Federation.from_frame(nulls, party="hospital", target="outcome", **settings),
    )


def test_the_advice_on_missing_values_is_right_in_python_toml_and_the_shell():
    gaps = FRAME.astype({"age": float})
    gaps.loc[3, "age"] = np.nan
    with pytest.raises(fp.SettingError) as error:
        Federation.from_frame(gaps, party="hospital", target="outcome")
    assert str(error.value).endswith(
        'Set missing to "mean" when you train to fill gaps with the mean of the training samples, or '
        'to "drop" to train without such rows (in the shell: --set missing=mean).'
    )


@pytest.mark.parametrize(
    ("change", "settings", "match"),
    [
        ({}, {"party": "clinic"}, "party must be a column of the frame: hospital, age, dose"),
        ({}, {"target": "y"}, "target must be a column of the frame"),
        (
            {"town": ["York"] * 100},
            {"text": "refuse"},
            "column 'town' must be numbers, got 'York'. Set text to \"one-hot\"",
        ),
        (
            {"outcome": [None, "ill"] * 50},
            {},
            "target 'outcome' must be present in every row, got 50",
        ),
        (
            {"outcome": [np.nan, 0.5] * 50},
            {},
            "target 'outcome' must be present in every row, got 50",
        ),
        ({}, {"task": "regression"}, "target 'outcome' must be numbers, got texts such as"),
        ({}, {"missing": "zero"}, "missing must be one of: refuse, mean, drop"),
    ],
)
def test_wrong_columns_and_settings_raise_a_one_line_error(change, settings, match):
    arguments = {"party": "hospital", "target": "outcome", **settings}
    with pytest.raises(fp.SettingError, match=match) as error:
        Federation.from_frame(FRAME.assign(**change), **arguments)
    assert "\n" not in str(error.value)


def test_numbers_of_any_type_are_accepted():
    """These are objects, decimals and pandas' nullable types. Large class numbers keep their names."""
    frame = FRAME.drop(columns="outcome").assign(
        dose=[Decimal(f"{i / 4}") for i in range(100)],
        age=pandas.array([None if i % 9 == 0 else i for i in range(100)], dtype="Int64"),
        flag=pandas.array(
            [None if i % 8 == 0 else i % 2 == 0 for i in range(100)], dtype="boolean"
        ),
    )
    federation = Federation.from_frame(frame, party="hospital", target="dose", missing="mean")
    assert federation.info.classes == ()
    assert federation.train.y.dtype == np.float32
    coded = FRAME.assign(outcome=[1000001 + i % 2 for i in range(100)])
    classes = Federation.from_frame(coded, party="hospital", target="outcome").info.classes
    assert classes == ("1000001", "1000002")


WITHOUT_PARTY = FRAME.assign(hospital=["a", None] * 50)
WITH_DATE = FRAME.assign(when=pandas.date_range("2020", periods=100))


@pytest.mark.parametrize(
    ("frame", "arguments", "match"),
    [
        (WITHOUT_PARTY, {}, "party 'hospital' must be present in every row, got 50"),
        (
            WITH_DATE,
            {},
            r"column 'when' must be numbers or categories, got dates such as 2020-01-01.*drop=when",
        ),
        (FRAME, {"target": "hospital"}, "target must be a column other than party"),
        (
            FRAME.rename(columns={"age": 3}),
            {},
            "columns of the frame must be distinct strings",
        ),
        (
            FRAME.rename(columns={"age": "dose"}),
            {},
            "columns of the frame must be distinct strings",
        ),
        (polars.DataFrame(COLUMNS).lazy(), {}, r"Call \.collect\(\) on a LazyFrame"),
    ],
)
def test_unusable_frames_raise_a_one_line_error(frame, arguments, match):
    with pytest.raises(fp.SettingError, match=match) as error:
        Federation.from_frame(frame, **{"party": "hospital", "target": "outcome", **arguments})
    assert "\n" not in str(error.value)
