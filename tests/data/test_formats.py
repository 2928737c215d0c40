"""Readers of published formats, on small files that the tests make in the same format."""

import gzip
import io
import struct
import zipfile

import numpy as np
import pytest

import fedplus as fp
from fedplus.data import load
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
from fedplus.data.sets import (
    femnist,
    glove,
    heart_disease,
    mnist_writers,
    portfolio,
    school,
    sent140,
)

CODES = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}


def as_idx(array, kind="u1"):
    """Written from the format's description: big-endian, axes after the magic number."""
    head = bytes([0, 0, CODES[kind], array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(f">{kind}").tobytes()


@pytest.mark.parametrize("kind", CODES)
@pytest.mark.parametrize("packed", [False, True])
def test_idx_comes_back_as_it_was_written(tmp_path, kind, packed):
    array = np.random.default_rng(0).integers(0, 100, size=(5, 3, 2))
    data = as_idx(array, kind)
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(data) if packed else data)
    back = read_idx_file(path)
    assert np.array_equal(back, array)
    assert back.dtype.isnative


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d + b"x", lambda d: b"PK" + d, lambda d: b""]
)
def test_a_damaged_idx_file_is_refused(damage):
    with pytest.raises(DataError, match=r"a\.idx must"):
        read_idx(damage(as_idx(np.ones((4, 2)))), "a.idx")


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


def test_an_archive_that_climbs_out_of_its_folder_writes_nothing(tmp_path):
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


def test_csv_with_quotes_line_breaks_and_gaps(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'a,b\n1,"x, ""y""\nz"\n?,w\n'))
    table = columns_by_name(read_csv_rows(path))
    assert table["b"] == ['x, "y"\nz', "w"]
    assert np.array_equal(parse_floats(table["a"]), [1.0, np.nan], equal_nan=True)


def test_what_took_long_is_kept_and_read_the_second_time(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built = []

    def build():
        built.append(1)
        return {"x": np.arange(5)}

    for _ in range(2):
        assert cached_arrays("thing", build)["x"].tolist() == [0, 1, 2, 3, 4]
    assert built == [1]
    with pytest.raises(ZeroDivisionError):
        cached_arrays("other", lambda: {"x": np.array(1 // 0)})
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["thing.npz"]


def placed(monkeypatch, tmp_path, module, attribute, path, read, write):
    """A set's file, small and made here: the same format, another checksum."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDPLUS_DATA", str(tmp_path))
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    write(tmp_path / path)
    monkeypatch.setattr(module, attribute, (Source((File(path),), read),))


def test_femnist_reads_emnists_archive(monkeypatch, tmp_path):
    """Letters a to j of "byclass", upright, in both of its parts; no two parties share an image."""
    rng = np.random.default_rng(0)
    labels = {part: rng.integers(0, 62, n) for part, n in (("train", 30_000), ("test", 5_000))}
    upright = {
        p: rng.integers(0, 256, size=(len(y), 28, 28), dtype=np.uint8) for p, y in labels.items()
    }

    def write(path):
        with zipfile.ZipFile(path, "w") as archive:
            for part, y in labels.items():
                sideways = upright[part].transpose(0, 2, 1)
                for kind, array in (("images-idx3", sideways), ("labels-idx1", y)):
                    name = f"gzip/emnist-byclass-{part}-{kind}-ubyte.gz"
                    archive.writestr(name, gzip.compress(as_idx(array), 1))

    placed(monkeypatch, tmp_path, femnist, "EMNIST", "emnist/gzip.zip", femnist._read, write)
    for _ in range(2):  # The second time from what was kept.
        made = load("femnist", parties=40, seed=1)
    assert made.parties == 40
    assert made.info.classes == tuple("abcdefghij")
    known = {
        image.tobytes(): int(y) - 36
        for part in labels
        for image, y in zip(upright[part], labels[part], strict=True)
    }
    seen = set()
    for split in (made.train, made.test):
        for image, y in zip(split.x, split.y, strict=True):
            pixels = np.rint(image * 255).astype(np.uint8).tobytes()
            assert known[pixels] == y
            seen.add(pixels)
    assert len(seen) == len(made.train.y) + len(made.test.y)
    for k in range(40):
        assert len(np.unique(made.train.party(k)[1])) <= 5


def glove_archive(path, words, features=50):
    rng = np.random.default_rng(0)
    vectors = {w: rng.normal(size=features).round(4) for w in words}
    with zipfile.ZipFile(path, "w") as archive:
        text = "".join(f"{w} {' '.join(map(str, v))}\n" for w, v in vectors.items())
        archive.writestr(f"glove.6B.{features}d.txt", text.encode())
    return vectors


def test_sent140_reads_stanfords_archive_and_glove(monkeypatch, tmp_path):
    """Accounts with enough tweets, 25 tokens, latin-1, vectors of GloVe; neutral tweets left out."""
    tweets = [
        ("4", "ann", "Good café, day! 😀"),
        ("0", "ann", "bad zzzz day"),
        ("2", "ann", "so so"),
    ]
    tweets += [("4", "bob", f"good {'very ' * 40}"), ("0", "bob", "bad"), ("4", "cy", "good")]
    tweets += [("0", "ann", "very bad"), ("4", "bob", "very good!")]

    def write(path):
        out = io.StringIO(newline="")
        for i, (polarity, user, text) in enumerate(tweets):
            out.write(f'"{polarity}","{i}","Mon Apr 06","NO_QUERY","{user}","{text}"\r\n')
        with zipfile.ZipFile(path, "w") as archive:
            body = out.getvalue().encode("latin-1", errors="replace")
            archive.writestr("training.1600000.processed.noemoticon.csv", body)

    name = "sent140/trainingandtestdata.zip"
    placed(monkeypatch, tmp_path, sent140, "TWEETS", name, sent140.read_archive, write)
    (tmp_path / "glove").mkdir()
    archive = tmp_path / "glove" / "glove.6B.zip"
    vectors = glove_archive(archive, ["good", "bad", "day", "very", "café", "!", ",", "unused"])
    monkeypatch.setattr(glove, "ARCHIVE", File("glove/glove.6B.zip"))
    made = load("sent140", least=3, features=50)
    assert made.names == ("ann", "bob")
    assert made.info.words == ("", "?", "!", ",", "bad", "café", "day", "good", "very")
    assert made.train.x.shape[1] == 25
    said = {
        " ".join(made.info.words[t] for t in row if t): int(y)
        for split in (made.train, made.test)
        for row, y in zip(split.x, split.y, strict=True)
    }
    long = " ".join(["good"] + ["very"] * 24)
    assert said == {
        "good café , day ! ?": 1, "bad ? day": 0, long: 1, "bad": 0, "very bad": 0, "very good !": 1,
    }  # fmt: skip
    for token, word in enumerate(made.info.words):
        expected = vectors.get(word, np.zeros(50))
        assert np.allclose(made.info.embedding[token], expected, atol=1e-6)
    with pytest.raises(fp.SettingError, match="features must be one of 50, 100, 200, 300"):
        load("sent140", least=3, features=77)


def test_kaggles_prices_by_day_and_stock(tmp_path):
    lines = ["date,open,high,low,close,volume,Name"]
    for name, base in (("BB", 10.0), ("AA", 20.0)):
        for day in range(4):
            if (name, day) != ("AA", 2):  # A day without trade keeps the last prices.
                p = base + day
                lines.append(f"2013-02-{day + 8:02d},{p},{p + 0.5},{p - 0.5},{p},100,{name}")
    path = tmp_path / "all_stocks_5yr.csv"
    path.write_text("\n".join(lines) + "\n")
    tickers, prices = portfolio._from_csv(path)
    assert tickers == ["AA", "BB"]
    assert prices[:, :, 0].tolist() == [[20, 10], [21, 11], [21, 12], [23, 13]]
    assert prices[3, 1].tolist() == [13.0, 13.5, 12.5]
    path.write_text("day,price\n1,2\n")
    with pytest.raises(DataError, match="must have the columns date, Name, close, high, low"):
        portfolio._from_csv(path)


def test_a_portfolio_sample_is_the_past_over_the_last_close_and_the_next_close(
    monkeypatch, tmp_path
):
    rng = np.random.default_rng(0)
    tickers = sorted({t for names in portfolio.SECTORS.values() for t in names.split()})
    prices = rng.uniform(10, 20, size=(60, len(tickers), 3)).astype(np.float32)
    monkeypatch.setattr(portfolio, "obtain", lambda sources: (tickers, prices))
    made = load("portfolio", parties=3, assets=4, window=5, validation_share=0.25)
    assert made.names == ("communication", "consumer", "staples")
    mine = [tickers.index(t) for t in portfolio.SECTORS["consumer"].split()[:4]]
    every = [made.train.party(1), made.validation.party(1), made.test.party(1)]
    x, y = (np.concatenate(arrays) for arrays in zip(*every, strict=True))
    assert x.shape == (55, 4, 5, 3)
    for t in (0, 17, 54):
        last = prices[t + 4, mine, 0]
        for i in range(5):
            assert np.allclose(x[t, :, i], prices[t + i, mine] / last[:, None])
        assert np.allclose(y[t], prices[t + 5, mine, 0] / last)


def test_portfolio_episodes_are_days_in_a_row_and_stay_within_their_part(monkeypatch):
    rng = np.random.default_rng(0)
    tickers = sorted({t for names in portfolio.SECTORS.values() for t in names.split()})
    prices = rng.uniform(10, 20, size=(75, len(tickers), 3)).astype(np.float32)
    monkeypatch.setattr(portfolio, "obtain", lambda sources: (tickers, prices))
    asked = {"parties": 2, "assets": 4, "window": 5, "validation_share": 0.25}
    made = load("portfolio", days=3, stride=2, **asked)
    single = load("portfolio", **asked)
    for part, step in (("train", 2), ("validation", 3), ("test", 3)):
        x, y = getattr(made, part).party(1)
        days, next_ = getattr(single, part).party(1)
        assert len(x) == (len(days) - 3) // step + 1
        assert x.shape[1:] == (4, 7, 3)
        for i in range(len(x)):
            first = i * step
            assert np.allclose(y[i], next_[first : first + 3])
            for t in range(3):  # Each day's window, in its own unit, is that day's sample.
                window = x[i, :, t : t + 5]
                assert np.allclose(window / window[:, -1:, :1], days[first + t], rtol=1e-5)
    with pytest.raises(fp.SettingError, match="days must be at most 14"):
        load("portfolio", days=15, **asked)


def test_uci_hospitals_qmnist_writers_and_malsar_schools(tmp_path):
    paths = []
    for name in heart_disease.HOSPITALS:
        path = tmp_path / name
        path.write_text(
            "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n40,?,2,?,0,?,0,150,0,0,?,?,?,3\n"
        )
        paths.append(path)
    table, whose = heart_disease._from_uci(*paths)
    assert table.shape == (8, 14)
    assert whose.tolist()[::2] == list(heart_disease.HOSPITALS)
    assert np.isnan(table[1, [1, 3, 5, 10, 11, 12]]).all()

    rng = np.random.default_rng(0)
    labels = [rng.integers(0, 4000, size=(n, 8)) for n in (60_000, 60_000)]
    for part, array in zip(("train", "test"), labels, strict=True):
        (tmp_path / part).write_bytes(gzip.compress(as_idx(array, "i4"), 1))
    writers = mnist_writers._read_qmnist(tmp_path / "train", tmp_path / "test")
    assert np.array_equal(writers, np.concatenate([labels[0][:, 2], labels[1][:10_000, 2]]))

    from scipy.io import savemat

    xs, ys = np.empty((1, 2), object), np.empty((1, 2), object)
    for k, n in enumerate((3, 2)):
        xs[0, k], ys[0, k] = np.full((n, 4), k), np.full((n, 1), 10.0 * k)
    savemat(tmp_path / "school.mat", {"X": xs, "Y": ys})
    x, y, which = school._from_mat(tmp_path / "school.mat")
    assert which.tolist() == [0, 0, 0, 1, 1]
    assert x[:, 0].tolist() == which.tolist()
    assert y.tolist() == [0, 0, 0, 10, 10]
