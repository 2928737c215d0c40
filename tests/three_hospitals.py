"""The tables of three hospitals, with texts, an identifier and gaps, as their users would have them."""

import numpy as np
import pandas


def hospital_table(rows=90, seed=0):
    """Return a table with a column of hospitals; whoever has a high dose, or is in ward B, is ill."""
    rng = np.random.default_rng(seed)
    frame = pandas.DataFrame(
        {
            "patient": [f"{seed}-{i:04d}" for i in range(3 * rows)],
            "hospital": np.repeat(["north", "south", "st. anna"], rows),
            "age": rng.integers(20, 90, 3 * rows).astype(float),
            "dose": rng.normal(5000, 800, 3 * rows),
            "ward": rng.choice(["A", "B"], 3 * rows),
            "stage": rng.choice([1, 2, 4], 3 * rows),
        }
    )
    signal = (frame.dose - 5000) / 800 + (frame.ward == "B") + 0.3 * rng.normal(size=3 * rows)
    frame["ill"] = np.where(signal > 0.5, "yes", "no")
    frame["days"] = np.round(20 + 4 * signal + (frame.hospital == "south"), 2)
    frame.loc[rng.random(3 * rows) < 0.1, "age"] = np.nan
    return frame
