"""How columns become inputs: encoding, gaps, standardisation, and the record of all three."""

import json

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fedplus as fp
from fedplus.data import Federation
from fedplus.data.preprocessing import Preprocessing
from fedplus.data.scaling import Moments, Scaling, pool_moments

RNG = np.random.default_rng(5)
N = 240
FRAME = pandas.DataFrame(
    {
        "hospital": RNG.choice(["north", "south", "west"], N),
        "age": RNG.integers(20, 90, N),
        "sugar": RNG.normal(5000, 700, N),
        "ward": RNG.choice(["A", "B", "C"], N),
        "code": RNG.choice([1, 3, 7], N),
        "ill": RNG.choice(["no", "yes"], N),
    }
)
SETTINGS = {"party": "hospital", "target": "ill"}


def raw_and_scaled(federation, frame, name, atol=0.0):
    """Return the columns and the model inputs of one party's training rows, in the same order."""
    rows = frame[frame.hospital == name]
    x = federation.train.party(federation.names.index(name))[0]
    encoded = federation.info.preprocessing.apply({c: rows[c].to_numpy() for c in rows}, name)
    is_row = np.isclose(encoded, x[:, None], rtol=0, atol=atol).all(2)
    assert is_row.any(1).all()
    chosen = is_row.argmax(1)
    return rows.iloc[chosen], x


def test_numbers_are_standardised_as_scikit_learn_does_it_and_texts_are_one_hot():
    federation = Federation.from_frame(FRAME, categorical="code", **SETTINGS)
    numbers, categories, x = [], [], []
    for name in federation.names:
        rows, inputs = raw_and_scaled(federation, FRAME, name)
        numbers.append(rows[["age", "sugar"]])
        categories.append(rows[["ward", "code"]])
        x.append(inputs)
    x = np.concatenate(x)
    expected = StandardScaler().fit_transform(pandas.concat(numbers))
    np.testing.assert_allclose(x[:, :2], expected, atol=2e-5)
    one_hot = OneHotEncoder(sparse_output=False).fit_transform(pandas.concat(categories))
    np.testing.assert_array_equal(x[:, 2:], one_hot)
    encoding = federation.info.preprocessing.encoding
    assert encoding.inputs[2:] == ("ward=A", "ward=B", "ward=C", "code=1", "code=3", "code=7")


def test_each_party_can_be_standardised_by_its_own_statistics():
    federation = Federation.from_frame(FRAME, standardise="party", **SETTINGS)
    for k in range(federation.parties):
        x = federation.train.party(k)[0][:, :2]
        np.testing.assert_allclose(x.mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(x.std(0), 1, atol=1e-4)
    pooled = Federation.from_frame(FRAME, **SETTINGS)
    assert np.abs([pooled.train.party(k)[0][:, 0].mean() for k in range(3)]).max() > 1e-3


def test_test_rows_do_not_change_the_statistics():
    first = Federation.from_frame(FRAME, **SETTINGS)
    rows, _ = raw_and_scaled(first, FRAME, "north")
    changed = FRAME.copy()
    is_test = (changed.hospital == "north") & ~changed.index.isin(rows.index)
    assert is_test.sum() > 5
    changed.loc[is_test, "sugar"] += 1e6
    second = Federation.from_frame(changed, **SETTINGS)
    np.testing.assert_array_equal(first.train.x, second.train.x)
    assert not np.array_equal(first.test.x, second.test.x)


@given(
    st.lists(
        arrays.arrays(
            float, st.tuples(st.integers(1, 8), st.just(2)),
            elements=st.one_of(st.floats(-1e6, 1e6), st.just(float("nan"))),
        ),
        min_size=1, max_size=5,
    )
)  # fmt: skip
def test_pooled_moments_are_those_of_all_samples_together(parts):
    pooled = pool_moments([Moments.of(part) for part in parts])
    for column, (count, mean, variance) in enumerate(
        zip(pooled.count, pooled.mean, pooled.variance, strict=True)
    ):
        values = np.concatenate(parts)[:, column]
        values = values[~np.isnan(values)]
        assert count == len(values)
        if len(values):
            scale = max(1.0, float(np.abs(values).max()))
            assert mean == pytest.approx(values.mean(), abs=1e-9 * scale)
            assert variance == pytest.approx(values.var(), abs=1e-9 * scale**2)


def test_a_constant_column_and_one_that_a_party_never_filled_in():
    frame = FRAME.assign(
        constant=3.0, lab=np.where(FRAME.hospital == "west", np.nan, FRAME.age * 2)
    )
    for how in ("pooled", "party"):
        federation = Federation.from_frame(frame, missing="mean", standardise=how, **SETTINGS)
        inputs = federation.info.preprocessing.encoding.inputs
        x = federation.train.x
        assert np.isfinite(x).all()
        assert (x[:, inputs.index("constant")] == 0).all()
        west = federation.train.party(federation.names.index("west"))[0]
        lab = west[:, inputs.index("lab")]
        assert np.abs(lab).max() < 1e-6  # The common mean is 0 after standardisation.


def test_rows_with_gaps_can_be_left_out():
    frame = FRAME.astype({"age": float})
    frame.loc[::4, "age"] = np.nan
    frame.loc[1, "ill"] = None
    federation = Federation.from_frame(frame, missing="drop", **SETTINGS)
    assert len(federation.train.y) + len(federation.test.y) == N - N // 4 - 1
    assert "61 rows with missing values left out" in federation.info.preprocessing.summary


def test_a_missing_category_is_zero_in_all_its_inputs():
    frame = FRAME.assign(ward=np.where(np.arange(N) % 3 == 0, "", FRAME.ward))
    with pytest.raises(fp.SettingError, match="column 'ward' must be present in every row, got 80"):
        Federation.from_frame(frame, **SETTINGS)
    federation = Federation.from_frame(frame, missing="mean", **SETTINGS)
    sums = np.concatenate([federation.train.x, federation.test.x])[:, 2:5].sum(1)
    assert (sums == 0).sum() == 80


def test_columns_can_be_left_out_by_one_text_or_by_a_list():
    for drop in ("ward,code", "ward, code", ["ward", "code"], ("ward", "code")):
        federation = Federation.from_frame(FRAME, drop=drop, **SETTINGS)
        assert federation.info.preprocessing.encoding.inputs == ("age", "sugar")
    with_comma = FRAME.rename(columns={"ward": "ward,wing"})
    federation = Federation.from_frame(with_comma, drop="ward,wing", **SETTINGS)
    assert federation.info.preprocessing.encoding.inputs == ("age", "sugar", "code")
    assert federation.info.preprocessing.dropped == ("ward,wing",)


@pytest.mark.parametrize(
    ("columns", "settings", "match"),
    [
        ({}, {"drop": "wards"}, "drop must be names of input columns: age, .*, got 'wards'"),
        ({}, {"drop": "ill"}, "drop must be names of input columns"),
        ({}, {"categorical": "cp"}, "categorical must be names of input columns"),
        ({}, {"text": "hash"}, "text must be one of: one-hot, drop, refuse, got 'hash'"),
        ({}, {"standardise": "all"}, r"standardise must be pooled, party, or no \(true or false\)"),
        ({}, {"standardise": 1}, "standardise must be"),
        ({}, {"colour": 1}, "setting must be one of: task, drop,"),
        (
            {"name": [f"Patient {i}" for i in range(N)]}, {},
            "column 'name' must be numbers, or at most 20 categories, got 240 different texts. If it "
            "is an identifier or a note, leave it out .*--set drop=name",
        ),
        (
            {"when": [f"{i % 28 + 1}.3.2024" for i in range(N)]}, {},
            "column 'when' must be numbers or categories, got dates such as 1.3.2024.*drop=when",
        ),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_inputs_are_named_with_advice(columns, settings, match):
    with pytest.raises(fp.SettingError, match=match) as error:
        Federation.from_frame(FRAME.assign(**columns), **SETTINGS, **settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(N),
        FRAME.groupby("hospital").cumcount(),
        np.where(np.arange(N), np.arange(N), np.nan),
    ],
)
def test_an_identifier_of_whole_numbers_is_pointed_out(numbers):
    """Also if every hospital counts from 0, and with a gap."""
    frame = FRAME.assign(id=numbers)
    (note,) = Federation.from_frame(frame, missing="mean", **SETTINGS).info.notes
    assert note.startswith("Column 'id' has a different whole number in every row of a party.")
    assert Federation.from_frame(FRAME, **SETTINGS).info.notes == ()


def test_values_that_differ_in_case_only_are_pointed_out_and_spaces_are_ignored():
    is_first = np.arange(N) < 20
    frame = FRAME.assign(
        ward=np.where(is_first, " a", FRAME.ward), ill=np.where(is_first, " yes ", FRAME.ill)
    )
    federation = Federation.from_frame(frame, **SETTINGS)
    assert federation.info.classes == ("no", "yes")
    (note,) = federation.info.notes
    assert note == "Column 'ward' has values that differ only in upper and lower case: 'A', 'a'."


@pytest.mark.parametrize("marker", ["N/A", "n/a", "null", "-", ".", "#N/A", "NULL", " "])
def test_usual_marks_of_missing_values_are_no_texts(marker):
    frame = FRAME.assign(sugar=FRAME.sugar.astype(object))
    frame.loc[3, "sugar"] = marker
    federation = Federation.from_frame(frame, missing="mean", **SETTINGS)
    assert "1 missing numbers" in federation.info.preprocessing.summary


@pytest.mark.parametrize("cell", ["high", "1_2", "3,5"])
def test_a_text_among_numbers_is_an_error(cell):
    frame = FRAME.assign(code=FRAME.code.astype(str))
    frame.loc[3, "code"] = cell
    match = (
        f"column 'code' must be numbers, got 1 texts such as '{cell}' among numbers.*"
        "--set categorical=code"
    )
    with pytest.raises(fp.SettingError, match=match):
        Federation.from_frame(frame, **SETTINGS)
    federation = Federation.from_frame(frame, categorical="code", **SETTINGS)
    assert f"code={cell}" in federation.info.preprocessing.encoding.inputs


def test_gaps_in_texts_that_are_left_out_do_not_matter():
    frame = FRAME.assign(note=np.where(np.arange(N) % 2, "", "well"))
    federation = Federation.from_frame(frame, missing="drop", text="drop", **SETTINGS)
    assert len(federation.train.y) + len(federation.test.y) == N
    assert federation.info.preprocessing.dropped == ("ward", "note")


@pytest.mark.parametrize("how", ["pooled", "party", "no"])
def test_the_record_repeats_the_preprocessing_exactly(how):
    frame = FRAME.astype({"age": float})
    frame.loc[::9, "age"] = np.nan
    federation = Federation.from_frame(
        frame, missing="mean", categorical="code", standardise=how, **SETTINGS
    )
    record = json.loads(json.dumps(federation.info.preprocessing.to_plain()))
    repeated = Preprocessing.from_plain(record)
    assert repeated.summary == federation.info.preprocessing.summary
    for name in federation.names:
        rows, x = raw_and_scaled(federation, frame, name)
        table = {column: rows[column].to_numpy() for column in reversed(frame.columns)}
        np.testing.assert_array_equal(repeated.apply(table, name), x)


@pytest.mark.parametrize(
    "content", [None, {}, [], {"encoding": 1}, {"encoding": None, "scaling": {}}]
)
def test_a_damaged_record_is_one_line(content):
    with pytest.raises(fp.SettingError, match="the preprocessing cannot be read"):
        Preprocessing.from_plain(content)


def test_standardising_twice_is_recorded_as_one_scaling():
    raw = Federation.from_frame(FRAME, standardise="no", **SETTINGS)
    once = Federation.from_frame(FRAME, **SETTINGS)
    for later in (raw.standardise(), once.standardise(like=once.select([0, 1]))):
        for name in raw.names:
            raw_and_scaled(later, FRAME, name, atol=1e-5)
    first = raw.select([0, 1]).standardise().train.x
    again = once.select([0, 1]).standardise().train.x
    np.testing.assert_allclose(first, again, atol=1e-5)


def test_a_scaling_by_party_needs_a_party_it_knows():
    moments = {"a": Moments.of(np.ones((3, 2))), "b": Moments.of(np.zeros((3, 2)))}
    scaling = Scaling.fit(moments, how="party")
    with pytest.raises(fp.SettingError, match="party must be one of: a, b, got 'c'"):
        scaling.of_party("c")
    pooled = Scaling.fit(moments)
    x = np.full((1, 2), 4.0)
    np.testing.assert_array_equal(scaling.of_party(None).apply(x), pooled.apply(x))
    np.testing.assert_array_equal(scaling.of_party("a").apply(np.full((1, 2), 4.0)), [[3, 3]])


def test_other_changes_of_the_inputs_end_the_record():
    federation = Federation.from_frame(FRAME, **SETTINGS)
    assert federation.map_inputs(lambda x: -x).info.preprocessing is None
