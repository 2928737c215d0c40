"""Write made-up tables of hospitals and of new patients: python examples/make_hospitals.py FOLDER.

The tables are as a hospital's might be: with an identifier, texts, codes, and missing values. The third
hospital measures the dose with a device that shows other numbers, so that one common model fails it.
"""

import csv
import sys
from pathlib import Path

import numpy as np

HEADER = ("patient", "age", "sex", "ward", "stage", "dose", "pulse", "readmitted")


def patients(
    rng: np.random.Generator, prefix: str, count: int, device: float
) -> list[list[object]]:
    """Return the rows of some patients; ``device`` is the sign with which the dose is measured."""
    rows: list[list[object]] = []
    for i in range(count):
        age, dose, pulse = rng.integers(18, 95), rng.normal(5000, 800), rng.normal(75, 12)
        stage, ward = int(rng.choice([1, 2, 4])), str(rng.choice(["north", "south", "tower"]))
        risk = (age - 55) / 20 + (dose - 5000) / 800 + (stage == 4) - (ward == "tower")
        is_readmitted = risk + rng.normal(0, 0.5) > 0.5
        shown = round(5000 + device * (dose - 5000), 1)
        measured = "" if rng.random() < 0.08 else round(float(pulse))
        rows.append(
            [f"{prefix}-{i:04}", age, rng.choice(["f", "m"]), ward, stage, shown, measured,
             "yes" if is_readmitted else "no"]
        )  # fmt: skip
    return rows


def write(path: Path, header: tuple[str, ...], rows: list[list[object]]) -> None:
    """Write a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(row[: len(header)] for row in rows)


if len(sys.argv) != 2:
    sys.exit(__doc__)
folder, rng = Path(sys.argv[1]), np.random.default_rng(1)
for name, count, device in (("anna", 240, 1.0), ("bergen", 160, 1.0), ("cosmas", 120, -1.0)):
    write(folder / "hospitals" / f"{name}.csv", HEADER, patients(rng, name, count, device))
write(folder / "new-patients.csv", HEADER[:-1], patients(rng, "new", 5, 1.0))
write(folder / "dresden.csv", HEADER, patients(rng, "dresden", 60, 1.0))
print(f"Written: {folder}/hospitals/*.csv, new-patients.csv, dresden.csv")
