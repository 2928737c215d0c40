"""Federations from folders with one CSV, Parquet or npz file per party (``data/folders.py``)."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from hospital_data import FRAME, assert_equal_federations

import fedplus as fp
from command import refused
from fedplus.data import Federation

ROOT = Path(__file__).parents[2]


def write_hospitals(folder, kind):
    """Write one file per hospital, and a file that is not data."""
    folder.mkdir()
    for name, frame in FRAME.groupby("hospital"):
        frame = frame.drop(columns="hospital")
        if kind == "csv":
            frame.to_csv(folder / f"{name}.csv", index=False)
        elif kind == "csv.gz":
            frame.to_csv(folder / f"{name}.csv.gz", index=False)
        elif kind == "parquet":
            frame.to_parquet(folder / f"{name}.parquet")
        else:
            y = (frame["outcome"] == "well").to_numpy().astype(int)
            np.savez(folder / f"{name}.npz", x=frame[["age", "dose"]].to_numpy("float32"), y=y)
    (folder / "README.txt").write_text("not a party")
    return folder


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "npz"])
def test_a_folder_gives_the_same_federation_as_the_frame(tmp_path, kind):
    folder = write_hospitals(tmp_path / "ward", kind)
    federation = Federation.from_folder(folder, target="outcome", seed=2, standardise="no")
    expected = Federation.from_frame(
        FRAME, party="hospital", target="outcome", seed=2, standardise="no"
    )
    assert_equal_federations(federation, expected)
    assert federation.name == "ward"


def test_unusable_folders_raise_a_one_line_error(tmp_path):
    def assert_rejected(match, target="outcome"):
        with pytest.raises(fp.SettingError, match=match) as error:
            Federation.from_folder(tmp_path / "ward", target=target)
        assert "\n" not in str(error.value)

    assert_rejected("folder must be an existing folder")
    folder = write_hospitals(tmp_path / "ward", "csv")
    assert_rejected("target must be a column of", target="diagnosis")
    north = folder / "north.csv"
    good = north.read_text()
    north.write_text(good.replace("age", "years"))
    assert_rejected(
        r"north\.csv must be a file with the columns of east\.csv, got missing columns: age; "
        r"other columns: years"
    )
    north.write_text("age,dose,outcome\n1,2\n")
    assert_rejected(
        r"north\.csv must be a CSV file with a header and the same number of cells in every row"
    )
    north.write_text("age,dose,outcome\n")
    assert_rejected(r"north\.csv must be a")
    north.write_text("")
    assert_rejected(r"north\.csv must be a")
    north.write_bytes(b"\xff\xfe\x00")
    assert_rejected(r"north\.csv must be a CSV file")
    north.write_text(good)
    np.savez(folder / "west.npz", x=np.ones(3))
    assert_rejected("must be one with files of one kind")
    for path in folder.glob("*.csv"):
        path.unlink()
    assert_rejected(r"west\.npz must be a file with arrays x and y, got the arrays x")
    np.savez(folder / "west.npz", x=np.array([{}]), y=np.ones(1))  # An object needs unpickling.
    assert_rejected(
        r"west\.npz must hold arrays x and y, got an error: Object arrays cannot be loaded"
    )
    (folder / "west.npz").unlink()
    assert_rejected("one with a file per party: .*, got other files only")
    for path in folder.iterdir():
        path.unlink()
    assert_rejected("one with a file per party: .*, got an empty folder")
    (folder / "west.parquet").write_bytes(b"PAR1 no")
    assert_rejected(r"west\.parquet must be a Parquet file")


def write_files(folder, **files):
    """Write files; an underscore in a name stands for a dot."""
    for name, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / name.replace("_", ".")).write_bytes(data)
    return folder


ROWS = "".join(f"{i},{i % 7},{i % 2}\n" for i in range(10))


def test_a_byte_order_mark_crlf_and_blank_lines_are_accepted(tmp_path):
    text = ("a,b,y\n" + ROWS).replace("\n", "\r\n") + "\r\n"
    folder = write_files(tmp_path, north_csv=b"\xef\xbb\xbf" + text.encode(), SOUTH_CSV=text)
    federation = Federation.from_folder(folder)
    assert federation.names == ("SOUTH", "north")
    assert federation.train.x.shape[1] == 2


def test_all_files_together_decide_whether_a_column_holds_texts(tmp_path):
    other = ROWS.replace(",1\n", ",other\n")
    folder = write_files(tmp_path, a_csv="a,b,y\n" + ROWS, b_csv="a,b,y\n" + other)
    assert Federation.from_folder(folder).info.classes == ("0", "1", "other")


@pytest.mark.parametrize(
    ("files", "match"),
    [
        (
            {"a_csv": "a,b,y\n" + ROWS, "a_csv_gz": gzip.compress(b"a,b,y\n1,2,3\n")},
            "two files for party 'a'",
        ),
        ({"a_csv": "a,a,y\n" + ROWS}, "two columns are called 'a'"),
        ({"a_csv": "a, a,y\n" + ROWS}, "two columns are called 'a'"),
        ({"a_csv": ",b,y\n" + ROWS}, "a column without a name.*index=False"),
        ({"a_csv": "a,b,y\n1,2,3\n1,2\n"}, "row 2 has 2 cells where the header has 3"),
        ({"a_csv_gz": gzip.compress(b"a,b,y\n" + ROWS.encode() * 99)[:-9]}, "must be a CSV file"),
        ({"a_csv_gz": b"\x1f\x8b" + b"damaged" * 9}, "must be a CSV file"),
        ({"a_npz": b"PK damaged"}, "must hold arrays x and y"),
        (
            {"a_csv": "a,b,y\n" + ROWS.replace(",1\n", ",?\n")},
            "target 'y' must be present in every",
        ),
    ],
)
def test_damaged_or_ambiguous_files_raise_a_one_line_error(tmp_path, files, match):
    with pytest.raises(fp.SettingError, match=match) as error:
        Federation.from_folder(write_files(tmp_path, **files))
    assert "\n" not in str(error.value)


def test_labels_of_one_class_are_rejected_with_advice_for_the_shell(tmp_path):
    """The command has no model to suggest: the data leave nothing to predict."""
    rows = "".join(f"{i},{i % 7},well\n" for i in range(10))
    write_files(tmp_path, north_csv="a,b,y\n" + rows, south_csv="a,b,y\n" + rows)
    message = refused("run", tmp_path, "-m", "local", "--rounds", "1")
    assert "labels must be of at least two classes, got only the class 'well'" in message
    assert "There is nothing to predict: choose another target" in message
    assert "lstm" not in message


def test_the_example_trains_on_one_csv_file_per_hospital(tmp_path):
    """Three hospitals agree; the fourth has opposite labels. Fed+ serves all four."""
    rng = np.random.default_rng(1)
    for name, sign in (("a", 1), ("b", 1), ("c", 1), ("d", -1)):
        x = rng.normal(size=(300, 3)) * (1, 10, 100) + (0, 5, 50)
        is_sick = sign * ((x[:, 0] - (x[:, 1] - 5) / 10) + 0.3 * rng.normal(size=300)) > 0
        frame = pandas.DataFrame(x, columns=["age", "pulse", "sugar"]).assign(
            diagnosis=is_sick.astype(int)
        )
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    process = subprocess.run(
        [sys.executable, ROOT / "examples/hospitals.py", tmp_path, "diagnosis"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = process.stdout.splitlines()[1:]
    scores = {line.split()[0]: float(line.split()[1]) for line in lines}
    assert set(scores) == {"a", "b", "c", "d"}
    assert min(scores.values()) > 0.85


def test_other_delimiters_and_decimal_commas_are_recognised(tmp_path):
    rows = [(i / 4, i % 7, "yes" if i % 2 else "no, never") for i in range(12)]
    frame = pandas.DataFrame(rows, columns=["a", "b", "y"])
    expected = None
    for k, style in enumerate(
        [{}, {"sep": ";", "decimal": ","}, {"sep": "\t"}, {"sep": "|"}, {"sep": ";"}]
    ):
        folder = tmp_path / str(k)
        folder.mkdir()
        frame.to_csv(folder / "north.csv", index=False, **style)
        federation = Federation.from_folder(folder, name="x")
        expected = expected or federation
        assert_equal_federations(federation, expected)
        assert federation.info.classes == ("no, never", "yes")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_one_file_with_a_column_of_parties_gives_the_same_federation_as_the_frame(tmp_path, suffix):
    path = tmp_path / f"patients{suffix}"
    if suffix == ".parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False)
    federation = Federation.from_file(path, party="hospital", target="outcome", seed=3)
    expected = Federation.from_frame(FRAME, party="hospital", target="outcome", seed=3)
    assert_equal_federations(federation, expected)
    assert federation.name == "patients"
    with pytest.raises(fp.SettingError, match=r"party must be a column of .*: hospital, age, dose"):
        Federation.from_file(path, party=None, target="outcome")
    with pytest.raises(fp.SettingError, match="the table must be an existing file"):
        Federation.from_file(tmp_path / "none.csv", party="hospital", target="outcome")


def test_npz_files_are_standardised_only_if_asked(tmp_path):
    rng = np.random.default_rng(2)
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", x=rng.normal(7, 3, (30, 2)), y=rng.integers(0, 2, 30))
    plain = Federation.from_folder(tmp_path)
    assert plain.info.preprocessing is None
    assert plain.train.x.mean() > 5
    standardised = Federation.from_folder(tmp_path, standardise="pooled")
    np.testing.assert_allclose(standardised.train.x.mean(0), 0, atol=1e-5)
    with pytest.raises(fp.SettingError, match="setting of npz files must be task or standardise"):
        Federation.from_folder(tmp_path, drop="a")
