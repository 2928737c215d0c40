"""Small files that would need much memory are refused before the memory is taken."""

import gzip
import io
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from command import environment, refused
from fedplus.check import SettingError
from fedplus.data import Federation
from fedplus.data.files import limits
from fedplus.data.files.formats import read_idx_file, read_npz, read_zip_member

GB = 2**30
LOAD = """
import pathlib, resource, sys
from fedplus.data import Federation
from fedplus.check import SettingError
import pyarrow.parquet
taken = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + 2**30, resource.RLIM_INFINITY))
try:
    made = Federation.from_folder(sys.argv[1], task="classification")
except SettingError as error:
    print(error)
else:
    print("loaded", made.parties, made.info.classes[0][:5])
"""


def loaded(folder):
    """What loading says in a process that may take one more gigabyte of memory."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(folder)], capture_output=True, text=True, check=False,
        env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = done.stdout.splitlines()
    return line


def header(shape, kind="<f4"):
    """The beginning of an npy file."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    return out.getvalue()


def archive(path, **content):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in content.items():
            made.writestr(f"{name}.npy", data)
    return path


def test_a_long_text_does_not_make_every_cell_as_long(tmp_path):
    """400 KB, of which one cell is long: NumPy's texts of one width took 7.8 GB for it."""
    rows = "".join(f"{i % 10},0\n" for i in range(60_000))
    for where, row in (("input", "long,0\n"), ("target", "0,long\n")):
        (tmp_path / where).mkdir()
        path = tmp_path / where / "a.csv"
        path.write_text("x,y\n" + row.replace("long", "z" * 131_000) + rows)
        assert path.stat().st_size < 400_000
    said = loaded(tmp_path / "input")
    assert "column 'x' must be numbers, got 'zzz" in said
    assert len(said) < 600
    assert loaded(tmp_path / "target") == "loaded 1 0"


def test_an_array_file_of_zeros_is_refused_by_what_it_unpacks_to(tmp_path, monkeypatch):
    """5 MB that unpack to 5 GB took 6.3 GB; here a hundredth of that, and the limit as well."""
    x = np.zeros((50_000, 250), np.float32)
    path = archive(tmp_path / "a.npz", x=header(x.shape) + x.tobytes(), y=header((0,)))
    assert path.stat().st_size < 60_000
    monkeypatch.setenv(limits.VARIABLE, "64")
    with pytest.raises(SettingError, match=r"a\.npz must need at most 64 MB of memory") as caught:
        read_npz(path)
    assert f"Set {limits.VARIABLE}=" in str(caught.value)
    monkeypatch.setenv(limits.VARIABLE, "1000")
    assert read_npz(path)["x"].shape == x.shape


@pytest.mark.parametrize("shape", [(10**9, 10**3), (10**30,), (2**62, 4), (10**10, 0)])
def test_a_header_that_promises_too_much_is_refused_before_anything_is_read(tmp_path, shape):
    archive(tmp_path / "a.npz", x=header(shape) + b"\0" * 16, y=header((4,)) + b"\0" * 16)
    assert "a.npz must need at most" in loaded(tmp_path)


@pytest.mark.parametrize("shape", [(7,), (-4,), (10**6,)])
def test_a_header_that_does_not_fit_its_content_is_refused(tmp_path, shape):
    archive(tmp_path / "a.npz", x=header(shape) + b"\0" * 16, y=header((4,)) + b"\0" * 16)
    said = loaded(tmp_path)
    assert "a.npz must hold arrays x and y" in said
    assert "16 bytes" in said


def test_only_plain_and_deflated_members_are_read(tmp_path):
    """LZMA could ask for a dictionary of gigabytes; a locked member was a RuntimeError."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_LZMA) as made:
        made.writestr("x.npy", header((1,)) + b"\0" * 4)
    with pytest.raises(SettingError, match="must hold arrays x and y"):
        Federation.from_folder(tmp_path)
    locked = archive(tmp_path / "a.npz", x=header((1,)) + b"\0" * 4).read_bytes()
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = locked.index(mark) + offset
        locked = locked[:at] + b"\x01" + locked[at + 1 :]
    (tmp_path / "a.npz").write_bytes(locked)
    with pytest.raises(SettingError, match="must hold arrays x and y"):
        Federation.from_folder(tmp_path)


def test_gzipped_rows_are_counted_while_they_are_unpacked(tmp_path):
    """5 MB of CSV that unpack to 5 GB."""
    line = b"1,0\n" * 2**18
    with gzip.open(tmp_path / "a.csv.gz", "wb", compresslevel=1) as out:
        out.write(b"x,y\n")
        for _ in range(150):
            out.write(line)
    assert (tmp_path / "a.csv.gz").stat().st_size < 2**20
    said = refused("run", tmp_path, "-m", "local", FEDPLUS_MAX_DATA_MB="500")
    assert "a.csv.gz must need at most 500 MB of memory" in said


def test_a_row_that_never_ends_is_refused(tmp_path):
    """One line of 300 MB: 300 million cells, unless it is stopped."""
    with gzip.open(tmp_path / "a.csv.gz", "wb", compresslevel=1) as out:
        out.write(b"x,y\n")
        for _ in range(300):
            out.write(b"," * 2**20)
    assert "a.csv.gz must have rows of at most" in loaded(tmp_path)


def test_all_files_of_a_folder_count_together(tmp_path, monkeypatch):
    for who in "abcd":
        np.savez(tmp_path / f"{who}.npz", x=np.zeros((10_000, 200)), y=np.arange(10_000) % 2)
    monkeypatch.setenv(limits.VARIABLE, "100")
    with pytest.raises(SettingError, match=r"c\.npz must need at most 100 MB .* other files"):
        Federation.from_folder(tmp_path)


def test_parquet_is_refused_by_its_rows_and_its_texts_are_not_repeated(tmp_path):
    """20 KB hold 300 million equal numbers; a text of a megabyte that is there 20,000 times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "rows").mkdir()
    schema = pa.schema({"x": pa.int64(), "y": pa.int64()})
    zeros = pa.table({"x": np.zeros(10**6, int), "y": np.zeros(10**6, int)}, schema=schema)
    with pq.ParquetWriter(tmp_path / "rows" / "a.parquet", schema) as out:
        for _ in range(60):
            out.write_table(zeros)
    assert (tmp_path / "rows" / "a.parquet").stat().st_size < 2**20
    assert "a.parquet must need at most" in loaded(tmp_path / "rows")
    (tmp_path / "texts").mkdir()
    texts = pa.table({"x": np.arange(20_000.0), "y": ["z" * 2**20, *["a"] * 19_999]})
    repeated = texts.set_column(1, "y", texts["y"].take(np.arange(20_000) % 2))
    pq.write_table(repeated.slice(0, 1000), tmp_path / "texts" / "a.parquet")
    assert loaded(tmp_path / "texts") == "loaded 1 a"
    (tmp_path / "lists").mkdir()
    pq.write_table(pa.table({"x": [[1, 2]], "y": [1]}), tmp_path / "lists" / "a.parquet")
    with pytest.raises(SettingError, match=r"column 'x' .* must be numbers or texts, got list"):
        Federation.from_folder(tmp_path / "lists")


def test_idx_files_and_members_of_archives_are_counted(tmp_path, monkeypatch):
    monkeypatch.setenv(limits.VARIABLE, "16")
    content = b"\0\0\x08\x01" + (2**26).to_bytes(4, "big") + bytes(2**26)
    (tmp_path / "images.gz").write_bytes(gzip.compress(content, 1))
    (tmp_path / "images").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("text", bytes(2**26))
    for name in ("images.gz", "images"):
        with pytest.raises(SettingError, match=f"{name} must need at most 16 MB"):
            read_idx_file(tmp_path / name)
    with (
        read_zip_member(tmp_path / "z.zip", "text") as stream,
        pytest.raises(SettingError, match="must need at most 16 MB"),
    ):
        stream.readline()


def test_two_columns_of_one_name_are_found_at_once(tmp_path):
    """A header of 100,000 names was searched 100,000 times."""
    names = [f"c{i}" for i in range(100_000)]
    (tmp_path / "a.csv").write_text(",".join([*names, "y", "y"]) + "\n")
    assert "two columns are called 'y'" in loaded(tmp_path)


@pytest.mark.parametrize("given", ["many", "-1", "0", "nan", "1e400"])
def test_a_wrong_limit_is_refused(given, monkeypatch, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 1)), y=np.zeros(4))
    monkeypatch.setenv(limits.VARIABLE, given)
    with pytest.raises(SettingError, match=f"{limits.VARIABLE} must be a number of megabytes"):
        Federation.from_folder(tmp_path)
