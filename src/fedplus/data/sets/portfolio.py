"""``portfolio``: daily prices, each party with the stocks of another sector."""

from pathlib import Path

import numpy as np

from fedplus._types import Host
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


def _from_npz(path: Path) -> tuple[list[str], Host]:
    arrays = read_npz(path)
    order = [arrays["fields"].tolist().index(field) for field in FIELDS]
    return arrays["tickers"].tolist(), arrays["ohlc"][:, :, order]


def _from_csv(path: Path) -> tuple[list[str], Host]:
    """Kaggle's file: a row a day and stock; a missing day keeps the last prices."""
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
        _from_npz,
    ),
    Source(
        (
            File(
                "finance/all_stocks_5yr.csv",
                origin="https://www.kaggle.com/datasets/camnugent/sandp500 (an account is needed)",
            ),
        ),
        _from_csv,
    ),
)


def make(
    *, seed: int, parties: int = 10, assets: int = 10, window: int = 31, days: int = 1,
    stride: int = 1, test_share: float = 0.2, validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """A sample is a day: what the prices did up to it, and what they do next; or some days in a row.

    x is (assets, window, 3): close, high and low of the last ``window`` days over the last close, as
    in Jiang et al. (2017). y is (assets,): the next close over the last. Days stay in order; the last
    ones are for testing, those before them for validation.

    With ``days`` > 1 a sample is an episode for ``models.eiie``: x is (assets, window + days − 1, 3),
    over the close that the first of its days begins with, and y (days, assets). Episodes for training
    overlap, those for validation and testing follow one another; none reaches into the next part.

    Args:
        seed: Of nothing: the data is as it is.
        parties: The first so many sectors.
        assets: Stocks of a party, the most traded ones first.
        window: Days that the policy sees.
        days: Days in a row that are one sample.
        stride: Days from the beginning of one training sample to that of the next.
        test_share: Of the days.
        validation_share: Of the other days.
    """
    require(1 <= parties <= len(SECTORS), "parties", parties, f"from 1 to {len(SECTORS)}")
    most = min(len(names.split()) for names in SECTORS.values())
    require(1 <= assets <= most, "assets", assets, f"from 1 to {most}")
    tickers, prices = load_source(PRICES)
    require(1 <= window < len(prices) - 2, "window", window, f"from 1 to {len(prices) - 3}")
    place = {ticker: i for i, ticker in enumerate(tickers)}
    names = list(SECTORS)[:parties]
    total = len(prices) - window
    test = round(test_share * total)
    held = round(validation_share * (total - test))
    shortest = min(part for part in (total - test - held, held, test) if part)
    require(days <= shortest, "days", days, f"at most {shortest}, the days of the shortest part")
    train_end, test_begin = total - test - held, total - test
    begins = [
        range(0, train_end - days + 1, stride),
        range(train_end, test_begin - days + 1, days),
        range(test_begin, total - days + 1, days),
    ]
    parts: list[list[Pair]] = [[], [], []]
    for sector in names:
        mine = prices[:, [place[ticker] for ticker in SECTORS[sector].split()[:assets]]]
        if not np.isfinite(mine).all():
            raise DataError(f"prices of the sector {sector} must all be there, got gaps.")
        for part, begin in zip(parts, begins, strict=True):
            part.append(_episodes(mine, window, days, begin))
    return Federation.from_arrays(
        parts[0], parts[2], validation=parts[1] if held else None, names=names
    )


def _episodes(prices: Host, window: int, days: int, begin: range) -> tuple[Host, Host]:
    """(n, assets, window + days − 1, 3) and (n, days, assets) of prices (all days, assets, 3).

    Of one day each: (n, assets).
    """
    first = np.array(begin, dtype=int)
    seen = prices[first[:, None] + np.arange(window + days - 1)].transpose(0, 2, 1, 3)
    unit = seen[:, :, window - 1, 0][:, :, None, None]
    close = prices[:, :, 0]
    last = first[:, None] + np.arange(window - 1, window + days - 1)
    moved = close[last + 1] / close[last]
    return (seen / unit).astype(np.float32), (moved if days > 1 else moved[:, 0]).astype(np.float32)


SET = DataSet(
    "portfolio", make, "daily prices of S&P 500 stocks, each party another sector",
    "S&P 500 stock data 2013-2018 (Nugent, Kaggle)", "CC0",
    "The paper names neither its stocks nor its dates: here ten sectors with ten stocks each, "
    "February 2013 to February 2018. Prices have splits but no dividends taken out of them.",
    (PRICES,),
)  # fmt: skip
