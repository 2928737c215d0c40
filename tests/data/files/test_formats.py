"""Parsers of idx, npz, CSV and zip files (``data/files/formats.py``) and the cache of arrays."""

import gzip
import zipfile

import numpy as np
import pytest

from fedplus.data.files import DataError, File, Source, load_source
from fedplus.data.files.extracted_cache import cached_arrays
from fedplus.data.files.formats import (
    columns_by_name,
    parse_floats,
    read_csv_rows,
    read_idx,
    read_idx_file,
    read_npz,
    read_zip_member,
)
from idx_format import CODES, encode_idx


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("is_gzipped", [False, True])
def test_an_idx_file_gives_the_array_that_was_written(tmp_path, kind, is_gzipped):
    array = np.random.default_rng(0).integers(0, 100, size=(5, 3, 2))
    data = encode_idx(array, kind)
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(data) if is_gzipped else data)
    result = read_idx_file(path)
    assert np.array_equal(result, array)
    assert result.dtype.isnative


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d + b"x", lambda d: b"PK" + d, lambda d: b""]
)
def test_a_damaged_idx_file_is_rejected(damage):
    with pytest.raises(DataError, match=r"a\.idx must"):
        read_idx(damage(encode_idx(np.ones((4, 2)))), "a.idx")


def test_objects_are_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    path = tmp_path / "bomb.npz"
    np.savez(path, a=np.array([Bomb()], dtype=object))
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        read_npz(path)
    source = Source((File(str(path)),), read_npz)
    with pytest.raises(DataError, match="must be as published, got an error while reading"):
        load_source((source,))


def test_a_zip_archive_with_paths_outside_its_folder_writes_nothing(tmp_path):
    """Members are read in place; nothing is ever unpacked."""
    inside = tmp_path / "inside"
    inside.mkdir()
    path = inside / "evil.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../escaped.txt", "out")
        archive.writestr("good.txt", "in")
    assert read_zip_member(path, "good.txt").read() == b"in"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["evil.zip", "inside"]
    with pytest.raises(
        DataError, match=r"must contain missing\.txt, got \.\./escaped\.txt, good\.txt"
    ):
        read_zip_member(path, "missing.txt")


def test_csv_cells_may_have_quotes_line_breaks_and_missing_values(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'a,b\n1,"x, ""y""\nz"\n?,w\n'))
    table = columns_by_name(read_csv_rows(path))
    assert table["b"] == ['x, "y"\nz', "w"]
    assert np.array_equal(parse_floats(table["a"]), [1.0, np.nan], equal_nan=True)


def test_extracted_arrays_are_cached_and_failures_are_not(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def build():
        calls.append(1)
        return {"x": np.arange(5)}

    for _ in range(2):
        assert cached_arrays("thing", build)["x"].tolist() == [0, 1, 2, 3, 4]
    assert calls == [1]
    with pytest.raises(ZeroDivisionError):
        cached_arrays("other", lambda: {"x": np.array(1 // 0)})
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["thing.npz"]
