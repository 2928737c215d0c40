"""Federations from Hugging Face data sets and Flower's partitioners (``data/hugging_face.py``)."""

import datasets
import numpy as np
import pytest
from flwr_datasets.partitioner import DirichletPartitioner, IidPartitioner
from hospital_data import FRAME, assert_equal_federations

import fedplus as fp
from fedplus.data import Federation

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 255, size=(60, 5, 4), dtype=np.uint8)
LABELS = RNG.integers(0, 3, 60)
WRITERS = [f"w{i % 4}" for i in range(60)]


def image_dataset():
    features = datasets.Features(
        {
            "image": datasets.Array2D((5, 4), "uint8"),
            "label": datasets.ClassLabel(names=["cat", "dog", "owl"]),
            "writer_id": datasets.Value("string"),
        }
    )
    columns = {"image": list(IMAGES), "label": LABELS.tolist(), "writer_id": WRITERS}
    return datasets.Dataset.from_dict(columns, features=features)


def test_a_column_divides_the_data_set():
    federation = Federation.from_hf(
        image_dataset(), partition_by="writer_id", x="image", name="pets"
    )
    assert federation.names == ("w0", "w1", "w2", "w3")
    assert federation.info.classes == ("cat", "dog", "owl")
    x = np.concatenate([federation.train.party(1)[0], federation.test.party(1)[0]])
    expected = IMAGES[1::4]
    assert x.shape == expected.shape
    assert {a.tobytes() for a in x.astype(np.uint8)} == {a.tobytes() for a in expected}


def test_an_absent_class_keeps_its_number():
    some = image_dataset().filter(lambda row: row["label"] != 1)
    federation = Federation.from_hf(some, partition_by="writer_id", x="image")
    labels = np.concatenate([federation.train.y, federation.test.y])
    assert set(labels.tolist()) == {0, 2}
    assert federation.info.classes[2] == "owl"


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
def test_a_flower_partitioner_divides_the_data_set(partitioner):
    federation = Federation.from_hf(image_dataset(), partition_by=partitioner, x="image")
    assert federation.parties == 5
    x = np.concatenate([federation.train.x, federation.test.x]).astype(np.uint8)
    assert {a.tobytes() for a in x} == {a.tobytes() for a in IMAGES}
    sizes = [len(partitioner.load_partition(k)) for k in range(5)]
    assert (federation.train.size + federation.test.size).tolist() == sizes


def test_a_flower_partitioner_can_be_used_only_once():
    partitioner = IidPartitioner(num_partitions=3)
    Federation.from_hf(image_dataset(), partition_by=partitioner, x="image")
    with pytest.raises(fp.SettingError, match="a new one"):
        Federation.from_hf(image_dataset(), partition_by=partitioner, x="image")


def test_columns_of_numbers_are_stacked():
    table = datasets.Dataset.from_pandas(FRAME.assign(y=(FRAME["outcome"] == "well").astype(int)))
    federation = Federation.from_hf(table, partition_by="hospital", x=["age", "dose"], y="y")
    frame = FRAME.assign(y=(FRAME["outcome"] == "well").astype(int)).drop(columns="outcome")
    expected = Federation.from_frame(frame, party="hospital", target="y", standardise="no")
    assert_equal_federations(federation, expected)


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
def test_wrong_columns_raise_a_setting_error(settings, match):
    with pytest.raises(fp.SettingError, match=match):
        Federation.from_hf(image_dataset(), **{"x": "image", **settings})


def test_a_dataset_dict_is_rejected_with_advice():
    with pytest.raises(fp.SettingError, match="Choose one of a DatasetDict"):
        Federation.from_hf(
            datasets.DatasetDict({"train": image_dataset()}), partition_by="writer_id"
        )
