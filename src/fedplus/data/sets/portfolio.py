"""``portfolio``: daily stock prices, one party per sector."""

from pathlib import Path

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require
from fedplus.data.federation import Federation
from fedplus.data.files import DataError, File, Source, load_source
from fedplus.data.files.formats import columns_by_name, parse_floats, read_csv_rows, read_npz
from fedplus.data.sets.base import DataSet
from fedplus.data.split import Pair

SECTORS = {
    "communication": "GOOGL NFLX T VZ CMCSA DIS TWX CHTR CBS ATVI EA CTL",
    "consumer": "AMZN HD MCD GM F SBUX NKE TGT LOW CMG M TJX",
    "staples": "PG WMT KO PEP PM MO MDLZ COST KR CL KMB GIS",
    "energy": "XOM CVX SLB HAL COP KMI OXY VLO EOG PXD MPC PSX",
    "finance": "BAC JPM C WFC GS AIG MS AXP MET USB COF PNC",
    "health": "GILD PFE JNJ MRK CELG AMGN BIIB UNH CVS BMY MDT REGN",
    "industry": "GE BA CAT DAL UNP UTX MMM HON UPS LMT FDX DE",
    "technology": "AAPL MSFT INTC NVDA CSCO IBM QCOM MU ORCL MA CRM TXN",
    "real estate": "SPG AMT CCI EQIX PSA HST VTR SBAC EQR AVB PLD HCP",
    "utilities": "DUK SO NEE EXC D PCG AEP PPL EIX FE ED PEG",
}
FIELDS = ("close", "high", "low")


def _read_npz(path: Path) -> tuple[list[str], NumpyArray]:
    arrays = read_npz(path)
    order = [arrays["fields"].tolist().index(field) for field in FIELDS]
    return arrays["tickers"].tolist(), arrays["ohlc"][:, :, order]


def _read_csv(path: Path) -> tuple[list[str], NumpyArray]:
    """Read Kaggle's file, one row per day and stock; a missing day has the prices of the day before."""
    table = columns_by_name(read_csv_rows(path))
    if not {"date", "Name", *FIELDS} <= set(table):
        raise DataError(f"{path} must have the columns date, Name, {', '.join(FIELDS)}.")
    dates, day = np.unique(table["date"], return_inverse=True)
    tickers, stock = np.unique(table["Name"], return_inverse=True)
    prices = np.full((len(dates), len(tickers), len(FIELDS)), np.nan, dtype=np.float32)
    for i, field in enumerate(FIELDS):
        prices[day, stock, i] = parse_floats(table[field])
    for today, before in zip(prices[1:], prices[:-1], strict=True):
        today[...] = np.where(np.isnan(today), before, today)
    return tickers.tolist(), prices


PRICES = (
    Source(
        (
            File(
                "finance/sp500_daily_ohlcv_2013_2018.npz",
                "sha256:15b2f85fad58b429dc6b36f0c0714c0b13cf26df9673cc4ad1dc3d9856054e37",
            ),
        ),
        _read_npz,
    ),
    Source(
        (
            File(
                "finance/all_stocks_5yr.csv",
                origin="https://www.kaggle.com/datasets/camnugent/sandp500 (an account is needed)",
            ),
        ),
        _read_csv,
    ),
)


def make(
    *, seed: int, parties: int = 10, assets: int = 10, window: int = 31, days: int = 1,
    stride: int = 1, test_share: float = 0.2, validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Build the federation; a sample is one day, or an episode of several consecutive days.

    x is (assets, window, 3): close, high and low of the last ``window`` days divided by the last close,
    as in Jiang et al. (2017). y is (assets,): the next close divided by the last one. Days stay in
    order: the last ones are for testing, those before them for validation.

    With ``days`` > 1 a sample is an episode for ``models.eiie``: x is (assets, window + days − 1, 3),
    divided by the last close before the episode, and y is (days, assets). Training episodes overlap;
    validation and test episodes follow one another. No episode reaches into the next split.

    Args:
        seed: Unused; nothing is random.
        parties: Number of sectors.
        assets: Number of stocks of a party, the most traded ones first.
        window: Number of days that the policy sees.
        days: Number of consecutive days of a sample.
        stride: Number of days from the start of one training sample to the start of the next.
        test_share: Share of the days for testing.
        validation_share: Share of the other days for validation.
    """
    require(1 <= parties <= len(SECTORS), "parties", parties, f"from 1 to {len(SECTORS)}")
    max_assets = min(len(names.split()) for names in SECTORS.values())
    require(1 <= assets <= max_assets, "assets", assets, f"from 1 to {max_assets}")
    tickers, prices = load_source(PRICES)
    require(1 <= window < len(prices) - 2, "window", window, f"from 1 to {len(prices) - 3}")
    column_of = {ticker: i for i, ticker in enumerate(tickers)}
    names = list(SECTORS)[:parties]
    total = len(prices) - window
    test = round(test_share * total)
    validation = round(validation_share * (total - test))
    train = total - test - validation
    shortest = min(part for part in (train, validation, test) if part)
    require(
        days <= shortest,
        "days",
        days,
        f"at most {shortest}, the number of days of the shortest split",
    )
    test_start = total - test
    starts = [
        range(0, train - days + 1, stride),
        range(train, test_start - days + 1, days),
        range(test_start, total - days + 1, days),
    ]
    splits: list[list[Pair]] = [[], [], []]
    for sector in names:
        own = prices[:, [column_of[ticker] for ticker in SECTORS[sector].split()[:assets]]]
        if not np.isfinite(own).all():
            raise DataError(f"prices of the sector {sector} must be complete, got gaps.")
        for split, start in zip(splits, starts, strict=True):
            split.append(_episodes(own, window, days, start))
    return Federation.from_arrays(
        splits[0], splits[2], validation=splits[1] if validation else None, names=names
    )


def _episodes(
    prices: NumpyArray, window: int, days: int, start: range
) -> tuple[NumpyArray, NumpyArray]:
    """Return inputs (n, assets, window + days − 1, 3) and labels (n, days, assets), or (n, assets).

    Args:
        prices: (all days, assets, 3).
        window: Number of days before an episode.
        days: Number of days of an episode; with 1 the labels have no axis of days.
        start: First day of each episode's window.
    """
    first = np.array(start, dtype=int)
    seen = prices[first[:, None] + np.arange(window + days - 1)].transpose(0, 2, 1, 3)
    last_close = seen[:, :, window - 1, 0][:, :, None, None]
    close = prices[:, :, 0]
    last = first[:, None] + np.arange(window - 1, window + days - 1)
    relatives = close[last + 1] / close[last]
    labels = relatives if days > 1 else relatives[:, 0]
    return (seen / last_close).astype(np.float32), labels.astype(np.float32)


SET = DataSet(
    "portfolio", make, "daily prices of S&P 500 stocks, one party per sector",
    "S&P 500 stock data 2013-2018 (Nugent, Kaggle)", "CC0",
    "The paper names neither its stocks nor its dates: here ten sectors with ten stocks each, "
    "February 2013 to February 2018. Prices are adjusted for splits but not for dividends.",
    (PRICES,),
)  # fmt: skip
