"""The data sets of ``load`` against their published numbers and the paper."""

import hashlib
import runpy
from pathlib import Path

import numpy as np
import pytest

import fedplus as fp
from fedplus.check import SettingError
from fedplus.data import SETS, load
from fedplus.data.card import class_counts
from fedplus.data.sets import portfolio

WITHOUT_FILES = ["digits-robust", "digits-personal", "synthetic-regression", "synthetic"]
TESTED = [name for name in SETS if name not in ("femnist", "sent140")]
"""Sets whose files are usually in the folder that FEDPLUS_DATA names."""
STANDARDISED = ("heart-disease", "parkinsons", "school")
"""Sets whose inputs depend on the training samples, and so on ``validation_share``."""


def digest(federation):
    """Return a hash of names, sizes, labels and inputs, all rounded to 16 bits."""
    result = hashlib.sha256(repr(federation.names).encode())
    for split in (federation.train, federation.test):
        for array in (split.size.astype("<i4"), split.y.astype("<f2"), split.x.astype("<f2")):
            result.update(np.ascontiguousarray(array + array.dtype.type(0)).tobytes())
    return result.hexdigest()[:16]


def all_samples(federation, k):
    """Return the training and test samples of a party."""
    pairs = [federation.train.party(k), federation.test.party(k)]
    return tuple(np.concatenate(arrays) for arrays in zip(*pairs, strict=True))


@pytest.mark.parametrize("name", TESTED)
def test_a_set_is_complete_and_reproducible(name, request):
    if name not in WITHOUT_FILES:
        request.getfixturevalue("real_data")
    federation = load(name, seed=3, validation_share=0.3)
    other = load(name, seed=3)
    assert federation.name == name
    assert len(set(federation.names)) == federation.parties == len(federation.train.size)
    assert np.array_equal(federation.test.y, other.test.y)
    if name not in STANDARDISED:
        assert np.array_equal(federation.test.x, other.test.x)
    assert len(federation.train.y) + len(federation.validation.y) == len(other.train.y)
    for split in (federation.train, federation.validation, federation.test):
        assert (split.size >= 1).all()
        assert np.isfinite(split.x).all()
        assert np.isfinite(split.y).all()
    assert federation.info.source
    assert federation.info.licence
    assert federation.info.differences
    assert digest(other) == digest(load(name, seed=3))
    if name not in ("portfolio",):
        assert digest(other) != digest(load(name, seed=4))


GOLDEN = {
    "digits-robust": "2343f9927243875a",
    "digits-personal": "eb6eb0657298cba1",
    "synthetic-regression": "96dd8f81f5805c84",
    "mnist-robust": "d84be775f98bb011",
    "mnist-personal": "c0edee8038c1eaf8",
    "synthetic": "6d045f01980b1054",
    "mnist": "2376170445785d88",
    "femnist-standin": "14ce3c70caa5de82",
    "sent140-standin": "023d83fecde6ff5e",
    "portfolio": "d1cfacca0d80b298",
    "heart-disease": "497108b0bb0af348",
    "parkinsons": "1baad0405794f9d2",
    "school": "4327866086dbc5e4",
    "mnist-writers": "22cd650b1d986332",
}


@pytest.mark.parametrize("name", TESTED)
def test_the_same_seed_gives_the_same_federation_on_every_machine(name, request):
    if name not in WITHOUT_FILES:
        request.getfixturevalue("real_data")
    assert digest(load(name, seed=0)) == GOLDEN[name]


@pytest.mark.parametrize("name", TESTED)
def test_the_card_in_the_docs_is_up_to_date(name, request):
    if name not in WITHOUT_FILES:
        request.getfixturevalue("real_data")
    docs = Path(__file__).parents[3] / "docs"
    card = runpy.run_path(str(docs / "cards.py"))["card"]
    assert card(name) in (docs / "data-cards.md").read_text(encoding="utf-8")
    assert (docs / "pictures" / f"{name}.png").is_file()


@pytest.mark.parametrize("name", ["digits-robust", "digits-personal"])
def test_each_digit_is_used_once_and_the_last_parties_have_negatives(name):
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    federation = load(name, parties=20, seed=5)
    held = class_counts(federation)
    assert np.ptp(held.sum(1)) <= 1
    assert np.array_equal(held.sum(0), np.bincount(labels))
    assert federation.info.outliers == ("18", "19")
    if name == "digits-personal":
        return
    known = {np.rint(i).astype(int).tobytes() for i in images}
    for k in range(20):
        x, _ = all_samples(federation, k)
        sign = -1 if federation.names[k] in federation.info.outliers else 1
        back = np.rint(sign * x * images.std() + images.mean()).astype(int)
        assert {row.tobytes() for row in back} <= known


def test_each_party_of_the_personal_variant_has_its_own_two_noisy_classes():
    robust, personal = load("digits-robust", seed=2), load("digits-personal", seed=2, scale=0.5)
    chosen = []
    for k in range(10):
        (a, y), (b, _) = all_samples(robust, k), all_samples(personal, k)
        changed = (a != b).any(1)
        noisy = np.unique(y[changed])
        assert len(noisy) == 2
        assert np.array_equal(changed, np.isin(y, noisy))
        assert abs((b - a)[changed].std() - 0.5 * 2**0.5) < 0.05
        chosen.append(tuple(noisy))
    assert len(set(chosen)) > 3


@pytest.mark.parametrize("parties", [10, 20, 50])
def test_the_share_of_outliers_does_not_depend_on_the_number_of_parties(parties):
    for share in (0.0, 0.1, 0.2):
        settings = {} if share == 0.1 else {"outliers": share}
        federation = load("digits-robust", parties=parties, **settings)
        assert len(federation.info.outliers) == round(share * parties)


def test_synthetic_regression_follows_its_stated_model():
    """All parties but the last have w̄ plus Laplacian noise; Σ, μ and the noise have their variances."""
    federation = load("synthetic-regression", samples=4000, features=100, parties=4, seed=1)
    fitted, means, spreads, errors = [], [], [], []
    for k in range(4):
        x, y = all_samples(federation, k)
        w, *_ = np.linalg.lstsq(x.astype(float), y.astype(float), rcond=None)
        fitted.append(w)
        errors.append(np.var(y - x @ w))
        means.append(x.mean(0))
        spreads.append(x.var(0))
    between = fitted[0] - fitted[1]
    assert (
        abs(np.abs(between).mean() / (1.5 * 0.5) - 1) < 0.25
    )  # The mean difference of two Laplacians is 1.5 b.
    assert abs(np.var(fitted[0]) / 5 - 1) < 0.5
    assert abs(np.var(fitted[3]) / 50 - 1) < 0.5
    assert np.corrcoef(fitted[0], fitted[3])[0, 1] < 0.3 < 0.75 < np.corrcoef(fitted[:2])[0, 1]
    assert np.allclose(errors, 2, rtol=0.15)
    assert abs(np.var(means) / 0.5 - 1) < 0.2
    expected = np.array([(1 + (j - 1) % 50) ** -1.1 for j in range(1, 101)])
    assert np.allclose(np.mean(spreads, 0), expected, rtol=0.1)
    assert federation.info.outliers == ("3",)
    default = load("synthetic-regression")
    assert (default.parties, default.train.x.shape) == (10, (500, 1000))


def test_synthetic_labels_do_not_depend_on_zeta():
    """D10: ζ shifts all logits of a party equally."""
    small, large = load("synthetic", zeta=0.0), load("synthetic", zeta=1e6)
    assert np.array_equal(small.train.y, large.train.y)
    assert np.array_equal(small.train.x, large.train.x)


def test_synthetic_with_fedproxs_reading_is_nearly_single_class():
    """With a stable argmax about 22 of 30 parties have a single class; the mean majority is 0.966."""
    single, majority = [], []
    for seed in range(5):
        held = class_counts(load("synthetic", seed=seed, reading="deviation"))
        single.append(((held > 0).sum(1) == 1).sum())
        majority.append((held.max(1) / held.sum(1)).mean())
    assert 18 <= np.mean(single) <= 26
    assert abs(np.mean(majority) - 0.966) < 0.02


def test_synthetic_with_own_0_has_one_model_for_all_parties():
    """With own=0 one linear model labels all samples correctly; with own=0.5 it does not."""
    rng = np.random.default_rng((4, 5, 0))
    bias, weight = np.split(rng.standard_normal((61, 10)), [1])
    for own, right in ((0.0, 1.0), (0.5, 0.6)):
        federation = load("synthetic", seed=4, zeta=9.0, beta=0.0, own=own, centre=0.0)
        agree = (federation.train.x @ weight + bias).argmax(1) == federation.train.y
        assert agree.mean() > 0.999 if own == 0 else agree.mean() < right


def test_synthetic_centred_at_0_has_many_classes_per_party():
    shared = {"zeta": 0.0, "beta": 0.0, "own": 0.5, "centre": 0.0}
    for seed in range(3):
        held = class_counts(load("synthetic", seed=seed, **shared))
        share = held / held.sum(1, keepdims=True)
        assert share.max(1).mean() < 0.4
        assert (share > 0.05).sum(1).mean() > 5
        paper = load("synthetic", seed=seed)
        assert (class_counts(paper) > 0).sum(1).mean() < 3


def test_the_first_parties_keep_their_samples():
    full = load("digits-robust", parties=20, validation_share=0.2)
    some = full.first(19)
    assert some.names == full.names[:19]
    assert some.info.outliers == ("18",)
    for part in ("train", "test", "validation"):
        for k in (0, 18):
            pairs = getattr(some, part).party(k), getattr(full, part).party(k)
            for actual, expected in zip(*pairs, strict=True):
                assert np.array_equal(actual, expected)
    with pytest.raises(fp.SettingError, match="first must be from 1 to 20"):
        full.first(21)


def test_synthetic_sizes_and_inputs_have_their_stated_distributions():
    sizes = np.concatenate([
        (f := load("synthetic", seed=s)).train.size + f.test.size for s in range(20)
    ])  # fmt: skip
    assert sizes.min() >= 50
    logs = np.log(sizes[sizes > 51] - 50)
    assert abs(np.median(logs) - 4) < 0.3
    federation = load("synthetic", parties=200, beta=4.0)
    big = np.argsort(-federation.train.size)[:20]
    variances = np.mean([federation.train.party(k)[0].var(0) for k in big], 0)
    assert np.allclose(variances, np.arange(1, 61) ** -1.2, rtol=0.15)
    centres = [federation.train.party(k)[0].mean() for k in range(200)]
    assert abs(np.var(centres) - 4) < 1.2


@pytest.mark.usefixtures("real_data")
def test_mnist_has_a_thousand_parties_with_one_digit_each():
    federation = load("mnist", seed=0)
    held = class_counts(federation)
    assert federation.parties == 1000
    assert held.sum() == 70_000
    assert ((held > 0).sum(1) == 1).all()
    published = [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
    assert held.sum(0).tolist() == published
    sizes = held.sum(1)
    assert sizes.min() >= 10
    assert sizes.max() > 10 * sizes.mean()
    two = class_counts(load("mnist", digits=2))
    assert ((two > 0).sum(1) == 2).all()
    assert np.allclose(federation.train.x.mean(0), 0, atol=0.1)


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize(("parties", "share"), [(10, 0.1), (50, 0.2)])
def test_mnist_robust_divides_equally_and_negates_the_outliers(parties, share):
    federation = load("mnist-robust", parties=parties, outliers=share)
    assert (federation.train.size == 30_000 // parties).all()
    assert (federation.test.size == 30_000 // parties).all()
    outliers = [federation.names.index(name) for name in federation.info.outliers]
    assert len(outliers) == {10: 1, 50: 10}[parties]
    darkest = (0 - 0.1307) / 0.3081
    for k in range(parties):
        x, _ = federation.train.party(k)
        assert (x.max() if k in outliers else x.min()) == pytest.approx(
            abs(darkest) if k in outliers else darkest, abs=1e-5
        )
    others = np.concatenate(
        [federation.train.party(k)[0] for k in range(parties) if k not in outliers]
    )
    assert abs(others.mean()) < 0.01
    assert abs(others.std() - 1) < 0.01


@pytest.mark.usefixtures("real_data")
def test_mnist_writers_are_disjoint_and_as_many_as_in_qmnist():
    """There are 539 writers of training images and 297 others of test images; two have too few."""
    every = load("mnist-writers", least=2)
    assert every.parties == 836
    assert len(every.train.y) + len(every.test.y) == 70_000
    federation = load("mnist-writers")
    assert federation.parties == 834
    assert (federation.train.size + federation.test.size).min() >= 10
    some, again = (load("mnist-writers", parties=30, seed=seed) for seed in (0, 1))
    assert some.parties == 30
    assert some.names == again.names
    sizes = dict(zip(federation.names, federation.train.size + federation.test.size, strict=True))
    assert [sizes[name] for name in some.names] == (some.train.size + some.test.size).tolist()
    with pytest.raises(SettingError, match="from 1 to 834"):
        load("mnist-writers", parties=835)


@pytest.mark.usefixtures("real_data")
def test_hospitals_patients_and_schools_have_the_published_sizes():
    heart = load("heart-disease")
    sizes = dict(zip(heart.names, (heart.train.size + heart.test.size).tolist(), strict=True))
    assert sizes == {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va_long_beach": 200}
    ill = dict(zip(heart.names, class_counts(heart)[:, 1].tolist(), strict=True))
    assert ill == {"cleveland": 139, "hungarian": 106, "switzerland": 115, "va_long_beach": 149}
    parkinsons = load("parkinsons")
    assert parkinsons.parties == 42
    assert len(parkinsons.train.y) + len(parkinsons.test.y) == 5875
    motor = np.concatenate([parkinsons.train.y, parkinsons.test.y])
    assert motor.mean() == pytest.approx(21.296, abs=1e-3)
    assert motor.min() == pytest.approx(5.0377)
    assert load("parkinsons", target="total_UPDRS").train.y.max() > motor.max()
    school = load("school")
    assert school.parties == 139
    assert len(school.train.y) + len(school.test.y) == 15_362
    assert school.train.x.shape[1] == 28
    assert (school.train.size + school.test.size).max() == 251


@pytest.mark.usefixtures("real_data")
def test_stand_ins_are_marked():
    letters, tweets = load("femnist-standin"), load("sent140-standin")
    assert letters.info.stand_in_for == "femnist"
    assert letters.parties == 200
    assert ((class_counts(letters) > 0).sum(1) <= 5).all()
    assert set(np.unique(letters.train.x)) == {0.0, 1.0}
    rows = np.concatenate([letters.train.x, letters.test.x])
    assert rows.shape[1] == 784
    assert tweets.info.stand_in_for == "sent140"
    assert tweets.parties == 837
    assert len(tweets.train.y) + len(tweets.test.y) == 3117
    assert tweets.info.embedding.shape == (len(tweets.info.vocabulary), 50)
    known = (tweets.train.x > 1).sum() / (tweets.train.x > 0).sum()
    assert known > 0.9
    for name, data_set in SETS.items():
        assert ("standin" in name) == bool(data_set.stand_in_for)


@pytest.mark.usefixtures("real_data")
def test_the_stocks_of_a_party_are_of_one_sector():
    from fedplus.data.files.formats import read_npz
    from fedplus.data.files.search_path import user_folder

    arrays = read_npz(user_folder() / "finance/sp500_daily_ohlcv_2013_2018.npz")
    sector = dict(zip(arrays["tickers"].tolist(), arrays["sectors"].tolist(), strict=True))
    jumps = set(arrays["tickers"][arrays["unadjusted_jump"]].tolist())
    for names in portfolio.SECTORS.values():
        stocks = names.split()
        assert len(stocks) == len(set(stocks)) == 12
        assert len({sector[stock] for stock in stocks}) == 1
        assert not jumps & set(stocks)
    federation = load("portfolio")
    assert federation.parties == 10
    assert len(federation.train.y) + len(federation.test.y) == 10 * (1259 - 31)
    assert 0.5 < federation.train.y.min() < federation.train.y.max() < 1.5


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: load("mnst"), r"got 'mnst'\. Did you mean mnist\?"),
        (lambda: load("zzz"), "Known: digits-robust, digits-personal"),
        (lambda: load("digits-robust", partys=3), "must be one of: parties, outliers, test_share"),
        (lambda: load("digits-robust", seed=-1), "seed must be a whole number ≥ 0, got -1"),
        (lambda: load("digits-robust", seed=1.5), "seed must be a whole number"),
        (
            lambda: load("digits-robust", parties=0),
            "parties must be a whole number ≥ 1",
        ),
        (lambda: load("digits-robust", parties=1500), "must be at least 3 so that"),
        (
            lambda: load("digits-robust", outliers=2.0),
            r"outliers must be a finite number in \[0, 1\]",
        ),
        (
            lambda: load("digits-robust", test_share=1.0),
            "test_share must be a share between 0 and 1",
        ),
        (lambda: load("digits-personal", scale=-1), "scale must be a finite number ≥ 0"),
        (lambda: load("synthetic", parties=2.5), "synthetic's parties must be a whole number"),
        (lambda: load("synthetic", test_share="abc"), "test_share must be a finite number"),
        (lambda: load("synthetic", reading="sd"), "reading must be variance or deviation"),
        (lambda: load("synthetic-regression", parties=1), "parties must be at least 2"),
    ],
)
def test_wrong_settings_raise_a_one_line_error(call, match):
    with pytest.raises(fp.SettingError, match=match) as error:
        call()
    assert "\n" not in str(error.value)
