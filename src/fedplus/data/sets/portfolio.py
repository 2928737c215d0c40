"""``portfolio``: daily prices, each party with the stocks of another sector."""

from pathlib import Path

import numpy as np

from fedplus._check import require
from fedplus.data.federation import Federation
from fedplus.data.files import DataError, File, Source, obtain
from fedplus.data.files.formats import columns, csv_rows, npz, numbers
from fedplus.data.sets.data_set import DataSet
from fedplus.data.split import Host

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
    arrays = npz(path)
    order = [arrays["fields"].tolist().index(field) for field in FIELDS]
    return arrays["tickers"].tolist(), arrays["ohlc"][:, :, order]


def _from_csv(path: Path) -> tuple[list[str], Host]:
    """Kaggle's file: a row a day and stock; a missing day keeps the last prices."""
    table = columns(csv_rows(path))
    if not {"date", "Name", *FIELDS} <= set(table):
        raise DataError(f"{path} must have the columns date, Name, {', '.join(FIELDS)}.")
    dates, day = np.unique(table["date"], return_inverse=True)
    tickers, stock = np.unique(table["Name"], return_inverse=True)
    prices = np.full((len(dates), len(tickers), len(FIELDS)), np.nan, dtype=np.float32)
    for i, field in enumerate(FIELDS):
        prices[day, stock, i] = numbers(table[field])
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
    *, seed: int, parties: int = 10, assets: int = 10, window: int = 31, test_share: float = 0.2,
    validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """A sample is a day: what the prices did up to it, and what they do next.

    x is (assets, window, 3): close, high and low of the last ``window`` days over the last close, as
    in Jiang et al. (2017). y is (assets,): the next close over the last. Days stay in order; the last
    ones are for testing, those before them for validation.

    Args:
        seed: Of nothing: the data is as it is.
        parties: The first so many sectors.
        assets: Stocks of a party, the most traded ones first.
        window: Days that the policy sees.
        test_share: Of the days.
        validation_share: Of the other days.
    """
    require(1 <= parties <= len(SECTORS), "parties", parties, f"from 1 to {len(SECTORS)}")
    most = min(len(names.split()) for names in SECTORS.values())
    require(1 <= assets <= most, "assets", assets, f"from 1 to {most}")
    tickers, prices = obtain(PRICES)
    require(1 <= window < len(prices) - 2, "window", window, f"from 1 to {len(prices) - 3}")
    place = {ticker: i for i, ticker in enumerate(tickers)}
    names = list(SECTORS)[:parties]
    pairs = []
    for sector in names:
        mine = prices[:, [place[ticker] for ticker in SECTORS[sector].split()[:assets]]]
        if not np.isfinite(mine).all():
            raise DataError(f"prices of the sector {sector} must all be there, got gaps.")
        pairs.append(_samples(mine, window))
    days = len(pairs[0][0])
    test = round(test_share * days)
    held = round(validation_share * (days - test))
    cuts = [days - test - held, days - test]
    parts = [
        [(x[a:b], y[a:b]) for x, y in pairs]
        for a, b in zip([0, *cuts], [*cuts, days], strict=True)
    ]  # fmt: skip
    return Federation.from_arrays(
        parts[0], parts[2], validation=parts[1] if held else None, names=names
    )


def _samples(prices: Host, window: int) -> tuple[Host, Host]:
    """(n, assets, window, 3) and (n, assets) of prices (days, assets, 3)."""
    seen = np.lib.stride_tricks.sliding_window_view(prices, window, axis=0)[:-1]
    last = seen[:, :, :1, -1:]
    relative = (seen / last).transpose(0, 1, 3, 2).astype(np.float32)
    return relative, (prices[window:, :, 0] / prices[window - 1 : -1, :, 0]).astype(np.float32)


SET = DataSet(
    "portfolio", make, "daily prices of S&P 500 stocks, each party another sector",
    "S&P 500 stock data 2013-2018 (Nugent, Kaggle)", "CC0",
    "The paper names neither its stocks nor its dates: here ten sectors with ten stocks each, "
    "February 2013 to February 2018. Prices have splits but no dividends taken out of them.",
    (PRICES,),
)  # fmt: skip
