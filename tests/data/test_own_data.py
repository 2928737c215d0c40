"""The user's own data: frames, folders, Hugging Face data sets, Flower's partitioners."""

import gzip
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import datasets
import numpy as np
import pandas
import polars
import pytest
from flwr_datasets.partitioner import DirichletPartitioner, IidPartitioner

import fedplus as fp
from fedplus.data import Federation

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
COLUMNS = {
    "hospital": ["north"] * 30 + ["south"] * 50 + ["east"] * 20,
    "age": RNG.integers(20, 90, 100).tolist(),
    "dose": RNG.normal(size=100).round(3).tolist(),
    "outcome": RNG.choice(["ill", "well"], 100).tolist(),
}
FRAME = pandas.DataFrame(COLUMNS)


def same(one, other):
    assert one.names == other.names
    for a, b in ((one.train, other.train), (one.test, other.test)):
        assert np.array_equal(a.x, b.x)
        assert np.array_equal(a.y, b.y)
        assert np.array_equal(a.size, b.size)


def test_pandas_and_polars_give_the_same_federation():
    one = Federation.from_frame(FRAME, party="hospital", target="outcome", seed=4)
    other = Federation.from_frame(
        polars.DataFrame(COLUMNS), party="hospital", target="outcome", seed=4
    )
    same(one, other)
    assert one.names == ("east", "north", "south")
    assert (one.train.size + one.test.size).tolist() == [20, 30, 50]
    assert one.info.classes == ("ill", "well")


def test_each_row_stays_with_its_label():
    made = Federation.from_frame(FRAME, party="hospital", target="outcome")
    truth = {
        (float(np.float32(a)), float(np.float32(d))): o
        for a, d, o in zip(FRAME["age"], FRAME["dose"], FRAME["outcome"], strict=True)
    }
    for split in (made.train, made.test):
        for (age, dose), y in zip(split.x.tolist(), split.y, strict=True):
            assert truth[age, dose] == made.info.classes[y]


def test_targets_with_a_fraction_are_regressed_on_and_whole_ones_are_classes():
    frame = FRAME.drop(columns="outcome")
    regress = Federation.from_frame(frame, party="hospital", target="dose")
    assert regress.train.y.dtype == np.float32
    assert regress.info.classes == ()
    frame = frame.assign(grade=RNG.choice([2, 5, 9], 100))
    classes = Federation.from_frame(frame, party="hospital", target="grade")
    assert classes.info.classes == ("2", "5", "9")
    assert set(classes.train.y.tolist()) == {0, 1, 2}
    told = Federation.from_frame(frame, party="hospital", target="grade", task="regression")
    assert set(told.train.y.tolist()) == {2.0, 5.0, 9.0}


def test_gaps_are_refused_or_filled_with_the_training_mean():
    gaps = FRAME.astype({"age": float})
    gaps.loc[::7, "age"] = np.nan
    with pytest.raises(
        fp.SettingError, match=r"column 'age' must be a number in every row, got 15"
    ):
        Federation.from_frame(gaps, party="hospital", target="outcome")
    made = Federation.from_frame(gaps, party="hospital", target="outcome", missing="mean")
    filled = {float(a) for a in made.train.x[:, 0]} - set(gaps["age"].dropna().tolist())
    known = made.train.x[np.isin(made.train.x[:, 0], list(gaps["age"].dropna())), 0]
    assert list(filled) == [pytest.approx(known.mean(), rel=1e-6)]
    nulls = polars.DataFrame(
        COLUMNS | {"age": [None if i % 7 == 0 else a for i, a in enumerate(COLUMNS["age"])]}
    )
    same(made, Federation.from_frame(nulls, party="hospital", target="outcome", missing="mean"))


@pytest.mark.parametrize(
    ("change", "settings", "match"),
    [
        ({}, {"party": "clinic"}, "party must be a column of the frame: hospital, age, dose"),
        ({}, {"target": "y"}, "target must be a column of the frame"),
        (
            {"town": ["York"] * 100},
            {},
            "column 'town' must be numbers, got 'York'. Drop the column",
        ),
        (
            {"outcome": [None, "ill"] * 50},
            {},
            "target 'outcome' must be there in every row, got 50",
        ),
        (
            {"outcome": [np.nan, 0.5] * 50},
            {},
            "target 'outcome' must be there in every row, got 50",
        ),
        ({}, {"task": "regression"}, "target 'outcome' must be numbers, got texts such as"),
        ({}, {"missing": "zero"}, "missing must be refuse or mean"),
    ],
)
def test_bad_frames_are_one_line(change, settings, match):
    asked = {"party": "hospital", "target": "outcome", **settings}
    with pytest.raises(fp.SettingError, match=match) as error:
        Federation.from_frame(FRAME.assign(**change), **asked)
    assert "\n" not in str(error.value)


def write(folder, kind):
    folder.mkdir()
    for name, mine in FRAME.groupby("hospital"):
        mine = mine.drop(columns="hospital")
        if kind == "csv":
            mine.to_csv(folder / f"{name}.csv", index=False)
        elif kind == "csv.gz":
            mine.to_csv(folder / f"{name}.csv.gz", index=False)
        elif kind == "parquet":
            mine.to_parquet(folder / f"{name}.parquet")
        else:
            y = (mine["outcome"] == "well").to_numpy().astype(int)
            np.savez(folder / f"{name}.npz", x=mine[["age", "dose"]].to_numpy("float32"), y=y)
    (folder / "README.txt").write_text("not a party")
    return folder


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "npz"])
def test_a_folder_gives_what_the_frame_gives(tmp_path, kind):
    made = Federation.from_folder(write(tmp_path / "ward", kind), target="outcome", seed=2)
    same(made, Federation.from_frame(FRAME, party="hospital", target="outcome", seed=2))
    assert made.name == "ward"


def test_bad_folders_are_one_line(tmp_path):
    def told(match, target="outcome"):
        with pytest.raises(fp.SettingError, match=match) as error:
            Federation.from_folder(tmp_path / "ward", target=target)
        assert "\n" not in str(error.value)

    told("folder must be a folder that is there")
    folder = write(tmp_path / "ward", "csv")
    told("target must be a column of", target="diagnosis")
    north = folder / "north.csv"
    good = north.read_text()
    north.write_text(good.replace("age", "years"))
    told(r"north\.csv must be a file with the columns of east\.csv, got age missing and years more")
    north.write_text("age,dose,outcome\n1,2\n")
    told(r"north\.csv must be a CSV file with a header and as many cells in every row")
    north.write_text("age,dose,outcome\n")
    told(r"north\.csv must be a")
    north.write_text("")
    told(r"north\.csv must be a")
    north.write_bytes(b"\xff\xfe\x00")
    told(r"north\.csv must be a CSV file")
    north.write_text(good)
    np.savez(folder / "west.npz", x=np.ones(3))
    told("must be files of one kind")
    for path in folder.glob("*.csv"):
        path.unlink()
    told(r"west\.npz must be a file with arrays x and y, got the arrays x")
    np.savez(folder / "west.npz", x=np.array([{}]), y=np.ones(1))  # An object: it would unpickle.
    told(r"west\.npz must hold arrays x and y, got an error: Object arrays cannot be loaded")
    (folder / "west.npz").unlink()
    told("one with a file a party")
    (folder / "west.parquet").write_bytes(b"PAR1 no")
    told(r"west\.parquet must be a Parquet file")


def folder_of(tmp_path, **files):
    for name, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / name.replace("_", ".")).write_bytes(data)
    return tmp_path


ROWS = "".join(f"{i},{i % 7},{i % 2}\n" for i in range(10))


def test_a_bom_crlf_and_blank_lines_are_no_hindrance(tmp_path):
    text = ("a,b,y\n" + ROWS).replace("\n", "\r\n") + "\r\n"
    marked = folder_of(tmp_path, north_csv=b"\xef\xbb\xbf" + text.encode(), SOUTH_CSV=text)
    made = Federation.from_folder(marked)
    assert made.names == ("SOUTH", "north")
    assert made.train.x.shape[1] == 2


def test_types_are_told_by_all_files_together(tmp_path):
    other = ROWS.replace(",1\n", ",other\n")
    both = folder_of(tmp_path, a_csv="a,b,y\n" + ROWS, b_csv="a,b,y\n" + other)
    assert Federation.from_folder(both).info.classes == ("0", "1", "other")


@pytest.mark.parametrize(
    ("files", "match"),
    [
        ({"a_csv": "a,b,y\n" + ROWS, "a_csv_gz": gzip.compress(b"a,b,y\n1,2,3\n")}, "two files of"),
        ({"a_csv": "a,a,y\n" + ROWS}, "two columns are called 'a'"),
        ({"a_csv": ",b,y\n" + ROWS}, "a column without a name.*index=False"),
        ({"a_csv": "a;b;y\n" + ROWS.replace(",", ";")}, "must be separated by commas"),
        ({"a_csv": "a,b,y\n1,2,3\n1,2\n"}, "row 2 has 2 cells where the header has 3"),
        ({"a_csv_gz": gzip.compress(b"a,b,y\n" + ROWS.encode() * 99)[:-9]}, "must be a CSV file"),
        ({"a_csv_gz": b"\x1f\x8b" + b"damaged" * 9}, "must be a CSV file"),
        ({"a_npz": b"PK damaged"}, "must hold arrays x and y"),
        ({"a_csv": "a,b,y\n" + ROWS.replace(",1\n", ",?\n")}, "target 'y' must be there in every"),
    ],
)
def test_damaged_or_doubtful_files_are_one_line(tmp_path, files, match):
    with pytest.raises(fp.SettingError, match=match) as error:
        Federation.from_folder(folder_of(tmp_path, **files))
    assert "\n" not in str(error.value)


def test_numbers_of_any_kind_are_numbers():
    """Objects, decimals and pandas' nullable kinds; large class numbers keep their names."""
    frame = FRAME.drop(columns="outcome").assign(
        dose=[Decimal(f"{i / 4}") for i in range(100)],
        age=pandas.array([None if i % 9 == 0 else i for i in range(100)], dtype="Int64"),
        flag=pandas.array(
            [None if i % 8 == 0 else i % 2 == 0 for i in range(100)], dtype="boolean"
        ),
    )
    made = Federation.from_frame(frame, party="hospital", target="dose", missing="mean")
    assert made.info.classes == ()
    assert made.train.y.dtype == np.float32
    coded = FRAME.assign(outcome=[1000001 + i % 2 for i in range(100)])
    named = Federation.from_frame(coded, party="hospital", target="outcome").info.classes
    assert named == ("1000001", "1000002")


NOBODY = FRAME.assign(hospital=["a", None] * 50)
DATED = FRAME.assign(when=pandas.date_range("2020", periods=100))


@pytest.mark.parametrize(
    ("frame", "asked", "match"),
    [
        (NOBODY, {}, "party 'hospital' must be there in every row, got 50"),
        (DATED, {}, "column 'when' must be numbers"),
        (FRAME, {"target": "hospital"}, "target must be another column than party"),
        (
            FRAME.rename(columns={"age": 3}),
            {},
            "columns of the frame must be texts that all differ",
        ),
        (FRAME.rename(columns={"age": "dose"}), {}, "columns of the frame must be texts"),
        (polars.DataFrame(COLUMNS).lazy(), {}, "Of a LazyFrame take"),
    ],
)
def test_doubtful_frames_are_one_line(frame, asked, match):
    with pytest.raises(fp.SettingError, match=match) as error:
        Federation.from_frame(frame, **{"party": "hospital", "target": "outcome", **asked})
    assert "\n" not in str(error.value)


def test_a_class_that_is_not_there_keeps_its_number():
    some = dataset().filter(lambda row: row["label"] != 1)
    made = Federation.from_hf(some, partition_by="writer_id", x="image")
    assert set(np.concatenate([made.train.y, made.test.y]).tolist()) == {0, 2}
    assert made.info.classes[2] == "owl"


def test_a_partitioner_is_used_once():
    partitioner = IidPartitioner(num_partitions=3)
    Federation.from_hf(dataset(), partition_by=partitioner, x="image")
    with pytest.raises(fp.SettingError, match="a new one"):
        Federation.from_hf(dataset(), partition_by=partitioner, x="image")


IMAGES = RNG.integers(0, 255, size=(60, 5, 4), dtype=np.uint8)
LABELS = RNG.integers(0, 3, 60)
WRITERS = [f"w{i % 4}" for i in range(60)]


def dataset():
    features = datasets.Features(
        {
            "image": datasets.Array2D((5, 4), "uint8"),
            "label": datasets.ClassLabel(names=["cat", "dog", "owl"]),
            "writer_id": datasets.Value("string"),
        }
    )
    columns = {"image": list(IMAGES), "label": LABELS.tolist(), "writer_id": WRITERS}
    return datasets.Dataset.from_dict(columns, features=features)


def test_a_hugging_face_data_set_by_column():
    made = Federation.from_hf(dataset(), partition_by="writer_id", x="image", name="pets")
    assert made.names == ("w0", "w1", "w2", "w3")
    assert made.info.classes == ("cat", "dog", "owl")
    x = np.concatenate([made.train.party(1)[0], made.test.party(1)[0]])
    mine = IMAGES[1::4]
    assert x.shape == mine.shape
    assert {a.tobytes() for a in x.astype(np.uint8)} == {a.tobytes() for a in mine}


@pytest.mark.parametrize(
    "partitioner",
    [
        IidPartitioner(num_partitions=5),
        DirichletPartitioner(
            num_partitions=5, partition_by="label", alpha=10.0, min_partition_size=3, seed=1
        ),
    ],
    ids=["iid", "dirichlet"],
)
def test_flowers_partitioners_deal_it_out(partitioner):
    made = Federation.from_hf(dataset(), partition_by=partitioner, x="image")
    assert made.parties == 5
    x = np.concatenate([made.train.x, made.test.x]).astype(np.uint8)
    assert {a.tobytes() for a in x} == {a.tobytes() for a in IMAGES}
    sizes = [len(partitioner.load_partition(k)) for k in range(5)]
    assert (made.train.size + made.test.size).tolist() == sizes


def test_columns_of_numbers_are_stacked():
    table = datasets.Dataset.from_pandas(FRAME.assign(y=(FRAME["outcome"] == "well").astype(int)))
    made = Federation.from_hf(table, partition_by="hospital", x=["age", "dose"], y="y")
    frame = FRAME.assign(y=(FRAME["outcome"] == "well").astype(int)).drop(columns="outcome")
    same(made, Federation.from_frame(frame, party="hospital", target="y"))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (
            {"partition_by": "writer"},
            "column must be one of the data set's: image, label, writer_id",
        ),
        ({"partition_by": 3}, "partition_by must be a column's name, or a partitioner"),
        ({"partition_by": "writer_id", "x": ["image", "label"]}, "column 'image' must be numbers"),
    ],
)
def test_bad_data_sets_are_one_line(settings, match):
    with pytest.raises(fp.SettingError, match=match):
        Federation.from_hf(dataset(), **{"x": "image", **settings})
    with pytest.raises(fp.SettingError, match="Of a DatasetDict take one"):
        Federation.from_hf(datasets.DatasetDict({"train": dataset()}), partition_by="writer_id")


def test_the_example_trains_on_csv_files_one_a_hospital(tmp_path):
    """Three hospitals agree; the fourth's scale is turned round. Fed+ serves all four."""
    rng = np.random.default_rng(1)
    for name, sign in (("a", 1), ("b", 1), ("c", 1), ("d", -1)):
        x = rng.normal(size=(300, 3)) * (1, 10, 100) + (0, 5, 50)
        sick = sign * ((x[:, 0] - (x[:, 1] - 5) / 10) + 0.3 * rng.normal(size=300)) > 0
        frame = pandas.DataFrame(x, columns=["age", "pulse", "sugar"]).assign(
            diagnosis=sick.astype(int)
        )
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    ran = subprocess.run(
        [sys.executable, ROOT / "examples/hospitals.py", tmp_path, "diagnosis"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    scores = {line.split()[0]: float(line.split()[1]) for line in ran.stdout.splitlines()[1:]}
    assert set(scores) == {"a", "b", "c", "d"}
    assert min(scores.values()) > 0.85
