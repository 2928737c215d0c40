"""Readers of the published data sets, on small files that the tests write in the same format."""

import gzip
import io
import zipfile

import numpy as np
import pytest

import fedplus as fp
from fedplus.data import load
from fedplus.data.files import DataError, File, Source
from fedplus.data.sets import (
    femnist,
    glove,
    heart_disease,
    mnist_writers,
    portfolio,
    school,
    sent140,
)
from idx_format import encode_idx


def place_file(monkeypatch, tmp_path, module, attribute, path, read, write):
    """Put a small file of a set's format into FEDPLUS_DATA, and accept any checksum."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDPLUS_DATA", str(tmp_path))
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    write(tmp_path / path)
    monkeypatch.setattr(module, attribute, (Source((File(path),), read),))


def test_femnist_reads_the_archive_of_emnist(monkeypatch, tmp_path):
    """It reads the letters a to j of both parts of "byclass", upright; parties share no image."""
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
                    archive.writestr(name, gzip.compress(encode_idx(array), 1))

    place_file(monkeypatch, tmp_path, femnist, "EMNIST", "emnist/gzip.zip", femnist._read, write)
    for _ in range(2):  # The second time it is read from the cache.
        federation = load("femnist", parties=40, seed=1)
    assert federation.parties == 40
    assert federation.info.classes == tuple("abcdefghij")
    known = {
        image.tobytes(): int(y) - 36
        for part in labels
        for image, y in zip(upright[part], labels[part], strict=True)
    }
    seen = set()
    for split in (federation.train, federation.test):
        for image, y in zip(split.x, split.y, strict=True):
            pixels = np.rint(image * 255).astype(np.uint8).tobytes()
            assert known[pixels] == y
            seen.add(pixels)
    assert len(seen) == len(federation.train.y) + len(federation.test.y)
    for k in range(40):
        assert len(np.unique(federation.train.party(k)[1])) <= 5


def write_glove_archive(path, words, features=50):
    rng = np.random.default_rng(0)
    vectors = {w: rng.normal(size=features).round(4) for w in words}
    with zipfile.ZipFile(path, "w") as archive:
        text = "".join(f"{w} {' '.join(map(str, v))}\n" for w, v in vectors.items())
        archive.writestr(f"glove.6B.{features}d.txt", text.encode())
    return vectors


def test_sent140_reads_the_archives_of_stanford(monkeypatch, tmp_path):
    """It reads latin-1, uses accounts with enough tweets and 25 tokens, and skips neutral tweets."""
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
    place_file(monkeypatch, tmp_path, sent140, "TWEETS", name, sent140.read_archive, write)
    (tmp_path / "glove").mkdir()
    archive = tmp_path / "glove" / "glove.6B.zip"
    vectors = write_glove_archive(
        archive, ["good", "bad", "day", "very", "café", "!", ",", "unused"]
    )
    monkeypatch.setattr(glove, "ARCHIVE", File("glove/glove.6B.zip"))
    federation = load("sent140", least=3, features=50)
    assert federation.names == ("ann", "bob")
    assert federation.info.vocabulary == ("", "?", "!", ",", "bad", "café", "day", "good", "very")
    assert federation.train.x.shape[1] == 25
    label_of_text = {
        " ".join(federation.info.vocabulary[t] for t in row if t): int(y)
        for split in (federation.train, federation.test)
        for row, y in zip(split.x, split.y, strict=True)
    }
    long = " ".join(["good"] + ["very"] * 24)
    assert label_of_text == {
        "good café , day ! ?": 1, "bad ? day": 0, long: 1, "bad": 0, "very bad": 0, "very good !": 1,
    }  # fmt: skip
    for token, word in enumerate(federation.info.vocabulary):
        expected = vectors.get(word, np.zeros(50))
        assert np.allclose(federation.info.embedding[token], expected, atol=1e-6)
    with pytest.raises(fp.SettingError, match="features must be one of 50, 100, 200, 300"):
        load("sent140", least=3, features=77)


def test_kaggles_file_is_read_by_day_and_stock(tmp_path):
    lines = ["date,open,high,low,close,volume,Name"]
    for name, base in (("BB", 10.0), ("AA", 20.0)):
        for day in range(4):
            if (name, day) != ("AA", 2):  # A day without trade has the prices of the day before.
                p = base + day
                lines.append(f"2013-02-{day + 8:02d},{p},{p + 0.5},{p - 0.5},{p},100,{name}")
    path = tmp_path / "all_stocks_5yr.csv"
    path.write_text("\n".join(lines) + "\n")
    tickers, prices = portfolio._read_csv(path)
    assert tickers == ["AA", "BB"]
    assert prices[:, :, 0].tolist() == [[20, 10], [21, 11], [21, 12], [23, 13]]
    assert prices[3, 1].tolist() == [13.0, 13.5, 12.5]
    path.write_text("day,price\n1,2\n")
    with pytest.raises(DataError, match="must have the columns date, Name, close, high, low"):
        portfolio._read_csv(path)


def test_a_portfolio_sample_has_past_prices_and_the_next_close_over_the_last_close(
    monkeypatch, tmp_path
):
    rng = np.random.default_rng(0)
    tickers = sorted({t for names in portfolio.SECTORS.values() for t in names.split()})
    prices = rng.uniform(10, 20, size=(60, len(tickers), 3)).astype(np.float32)
    monkeypatch.setattr(portfolio, "load_source", lambda sources: (tickers, prices))
    federation = load("portfolio", parties=3, assets=4, window=5, validation_share=0.25)
    assert federation.names == ("communication", "consumer", "staples")
    columns = [tickers.index(t) for t in portfolio.SECTORS["consumer"].split()[:4]]
    splits = [federation.train.party(1), federation.validation.party(1), federation.test.party(1)]
    x, y = (np.concatenate(arrays) for arrays in zip(*splits, strict=True))
    assert x.shape == (55, 4, 5, 3)
    for t in (0, 17, 54):
        last = prices[t + 4, columns, 0]
        for i in range(5):
            assert np.allclose(x[t, :, i], prices[t + i, columns] / last[:, None])
        assert np.allclose(y[t], prices[t + 5, columns, 0] / last)


def test_portfolio_episodes_are_consecutive_days_within_one_split(monkeypatch):
    rng = np.random.default_rng(0)
    tickers = sorted({t for names in portfolio.SECTORS.values() for t in names.split()})
    prices = rng.uniform(10, 20, size=(75, len(tickers), 3)).astype(np.float32)
    monkeypatch.setattr(portfolio, "load_source", lambda sources: (tickers, prices))
    settings = {"parties": 2, "assets": 4, "window": 5, "validation_share": 0.25}
    federation = load("portfolio", days=3, stride=2, **settings)
    single = load("portfolio", **settings)
    for part, step in (("train", 2), ("validation", 3), ("test", 3)):
        x, y = getattr(federation, part).party(1)
        days, relatives = getattr(single, part).party(1)
        assert len(x) == (len(days) - 3) // step + 1
        assert x.shape[1:] == (4, 7, 3)
        for i in range(len(x)):
            first = i * step
            assert np.allclose(y[i], relatives[first : first + 3])
            for t in range(3):  # Each day's window, in its own unit, is that day's sample.
                window = x[i, :, t : t + 5]
                assert np.allclose(window / window[:, -1:, :1], days[first + t], rtol=1e-5)
    with pytest.raises(fp.SettingError, match="days must be at most 14"):
        load("portfolio", days=15, **settings)


def test_uci_hospitals_qmnist_writers_and_malsar_schools_are_read(tmp_path):
    paths = []
    for name in heart_disease.HOSPITALS:
        path = tmp_path / name
        path.write_text(
            "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,0\n40,?,2,?,0,?,0,150,0,0,?,?,?,3\n"
        )
        paths.append(path)
    table, hospital = heart_disease._read_uci(*paths)
    assert table.shape == (8, 14)
    assert hospital.tolist()[::2] == list(heart_disease.HOSPITALS)
    assert np.isnan(table[1, [1, 3, 5, 10, 11, 12]]).all()

    rng = np.random.default_rng(0)
    labels = [rng.integers(0, 4000, size=(n, 8)) for n in (60_000, 60_000)]
    for part, array in zip(("train", "test"), labels, strict=True):
        (tmp_path / part).write_bytes(gzip.compress(encode_idx(array, "i4"), 1))
    writers = mnist_writers._read_qmnist(tmp_path / "train", tmp_path / "test")
    assert np.array_equal(writers, np.concatenate([labels[0][:, 2], labels[1][:10_000, 2]]))

    from scipy.io import savemat

    xs, ys = np.empty((1, 2), object), np.empty((1, 2), object)
    for k, n in enumerate((3, 2)):
        xs[0, k], ys[0, k] = np.full((n, 4), k), np.full((n, 1), 10.0 * k)
    savemat(tmp_path / "school.mat", {"X": xs, "Y": ys})
    x, y, which = school._read_mat(tmp_path / "school.mat")
    assert which.tolist() == [0, 0, 0, 1, 1]
    assert x[:, 0].tolist() == which.tolist()
    assert y.tolist() == [0, 0, 0, 10, 10]
