"""Small files that would need much memory are rejected before it is allocated (``files/limits.py``)."""

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


def load_with_1_gb(folder):
    """Load a folder in a process that may allocate one gigabyte, and return the line it prints.

    Arrow's own allocator would reserve a gigabyte of addresses at once.
    """
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(folder)], capture_output=True, text=True, check=False,
        env=environment(ARROW_DEFAULT_MEMORY_POOL="system"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = done.stdout.splitlines()
    return line


def npy_header(shape, kind="<f4"):
    """Return the header of an npy file."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": kind, "fortran_order": False, "shape": shape}
    )
    return out.getvalue()


def write_npz(path, **content):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(f"{name}.npy", data)
    return path


def test_one_long_text_does_not_widen_every_cell(tmp_path):
    """One cell of this 400 KB file is long; NumPy's text arrays would take 7.8 GB."""
    rows = "".join(f"{i % 10},0\n" for i in range(60_000))
    for where, row in (("input", "long,0\n"), ("target", "0,long\n")):
        (tmp_path / where).mkdir()
        path = tmp_path / where / "a.csv"
        path.write_text("x,y\n" + row.replace("long", "z" * 131_000) + rows)
        assert path.stat().st_size < 400_000
    message = load_with_1_gb(tmp_path / "input")
    assert "column 'x' must be numbers, got 1 texts such as 'zzz" in message
    assert len(message) < 600
    assert load_with_1_gb(tmp_path / "target") == "loaded 1 0"


def test_a_compressed_array_is_rejected_by_its_unpacked_size(tmp_path, monkeypatch):
    """A file of 5 MB could unpack to 5 GB; this test uses a hundredth of it and a smaller limit."""
    x = np.zeros((50_000, 250), np.float32)
    path = write_npz(tmp_path / "a.npz", x=npy_header(x.shape) + x.tobytes(), y=npy_header((0,)))
    assert path.stat().st_size < 60_000
    monkeypatch.setenv(limits.VARIABLE, "64")
    with pytest.raises(SettingError, match=r"a\.npz must take at most 64 MB of memory") as caught:
        read_npz(path)
    assert f"Set {limits.VARIABLE}=" in str(caught.value)
    monkeypatch.setenv(limits.VARIABLE, "1000")
    assert read_npz(path)["x"].shape == x.shape


@pytest.mark.parametrize("shape", [(10**9, 10**3), (10**30,), (2**62, 4), (10**10, 0)])
def test_a_header_with_a_huge_shape_is_rejected_before_anything_is_read(tmp_path, shape):
    write_npz(tmp_path / "a.npz", x=npy_header(shape) + b"\0" * 16, y=npy_header((4,)) + b"\0" * 16)
    assert "a.npz must take at most" in load_with_1_gb(tmp_path)


@pytest.mark.parametrize("shape", [(7,), (-4,), (10**6,)])
def test_a_header_that_does_not_match_its_content_is_rejected(tmp_path, shape):
    write_npz(tmp_path / "a.npz", x=npy_header(shape) + b"\0" * 16, y=npy_header((4,)) + b"\0" * 16)
    message = load_with_1_gb(tmp_path)
    assert "a.npz must hold arrays x and y" in message
    assert "16 bytes" in message


def test_only_plain_and_deflated_members_are_read(tmp_path):
    """LZMA could need a dictionary of gigabytes; an encrypted member would raise a RuntimeError."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", npy_header((1,)) + b"\0" * 4)
    with pytest.raises(SettingError, match="must hold arrays x and y"):
        Federation.from_folder(tmp_path)
    encrypted = write_npz(tmp_path / "a.npz", x=npy_header((1,)) + b"\0" * 4).read_bytes()
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = encrypted.index(mark) + offset
        encrypted = encrypted[:at] + b"\x01" + encrypted[at + 1 :]
    (tmp_path / "a.npz").write_bytes(encrypted)
    with pytest.raises(SettingError, match="must hold arrays x and y"):
        Federation.from_folder(tmp_path)


def test_gzipped_rows_are_counted_while_they_are_unpacked(tmp_path):
    """A gzipped CSV file of less than 1 MB needs more memory than the limit."""
    line = b"1,0\n" * 2**18
    with gzip.open(tmp_path / "a.csv.gz", "wb", compresslevel=1) as out:
        out.write(b"x,y\n")
        for _ in range(150):
            out.write(line)
    assert (tmp_path / "a.csv.gz").stat().st_size < 2**20
    message = refused("run", tmp_path, "-m", "local", FEDPLUS_MAX_DATA_MB="500")
    assert "a.csv.gz must take at most 500 MB of memory" in message


def test_a_very_long_row_is_rejected(tmp_path):
    """The row has 300 MB and 300 million cells."""
    with gzip.open(tmp_path / "a.csv.gz", "wb", compresslevel=1) as out:
        out.write(b"x,y\n")
        for _ in range(300):
            out.write(b"," * 2**20)
    assert "a.csv.gz must have rows of at most" in load_with_1_gb(tmp_path)


def test_all_files_of_a_folder_count_together(tmp_path, monkeypatch):
    for name in "abcd":
        np.savez(tmp_path / f"{name}.npz", x=np.zeros((10_000, 200)), y=np.arange(10_000) % 2)
    monkeypatch.setenv(limits.VARIABLE, "100")
    with pytest.raises(SettingError, match=r"c\.npz must take at most 100 MB .* other files"):
        Federation.from_folder(tmp_path)


def test_parquet_is_rejected_by_its_number_of_rows_and_equal_texts_share_memory(tmp_path):
    """A small file can hold many millions of equal numbers, or one long text many times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "rows").mkdir()
    schema = pa.schema({"x": pa.int64(), "y": pa.int64()})
    zeros = pa.table({"x": np.zeros(10**6, int), "y": np.zeros(10**6, int)}, schema=schema)
    with pq.ParquetWriter(tmp_path / "rows" / "a.parquet", schema) as out:
        for _ in range(60):
            out.write_table(zeros)
    assert (tmp_path / "rows" / "a.parquet").stat().st_size < 2**20
    assert "a.parquet must take at most" in load_with_1_gb(tmp_path / "rows")
    (tmp_path / "texts").mkdir()
    texts = pa.chunked_array([["z" * 2**20, "a"]]).take(np.arange(1000) % 2)
    pq.write_table(pa.table({"x": np.arange(1000.0), "y": texts}), tmp_path / "texts" / "a.parquet")
    assert load_with_1_gb(tmp_path / "texts") == "loaded 1 a"
    (tmp_path / "lists").mkdir()
    pq.write_table(pa.table({"x": [[1, 2]], "y": [1]}), tmp_path / "lists" / "a.parquet")
    with pytest.raises(SettingError, match=r"column 'x' .* must be numbers or texts, got list"):
        Federation.from_folder(tmp_path / "lists")


def test_idx_files_and_members_of_archives_are_counted(tmp_path, monkeypatch):
    monkeypatch.setenv(limits.VARIABLE, "16")
    content = b"\0\0\x08\x01" + (2**26).to_bytes(4, "big") + bytes(2**26)
    (tmp_path / "images.gz").write_bytes(gzip.compress(content, 1))
    (tmp_path / "images").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("text", bytes(2**26))
    for name in ("images.gz", "images"):
        with pytest.raises(SettingError, match=f"{name} must take at most 16 MB"):
            read_idx_file(tmp_path / name)
    with (
        read_zip_member(tmp_path / "z.zip", "text") as stream,
        pytest.raises(SettingError, match="must take at most 16 MB"),
    ):
        stream.readline()


def test_a_duplicate_among_many_columns_is_found_fast(tmp_path):
    """A quadratic search of 100,000 names would take minutes."""
    names = [f"c{i}" for i in range(100_000)]
    (tmp_path / "a.csv").write_text(",".join([*names, "y", "y"]) + "\n")
    assert "two columns are called 'y'" in load_with_1_gb(tmp_path)


@pytest.mark.parametrize("given", ["many", "-1", "0", "nan", "1e400"])
def test_a_wrong_limit_is_rejected(given, monkeypatch, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((4, 1)), y=np.zeros(4))
    monkeypatch.setenv(limits.VARIABLE, given)
    with pytest.raises(SettingError, match=f"{limits.VARIABLE} must be a number of megabytes"):
        Federation.from_folder(tmp_path)
