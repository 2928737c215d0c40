"""What a faulty party sends in the place of its model."""

import numpy as np
from flwr.app import Array, ArrayRecord, RecordDict

MALFORMED = {
    "NaN": lambda w: {**w, "weight": w["weight"] * np.float32(np.nan)},
    "Inf": lambda w: {**w, "weight": w["weight"] * 0 + np.float32(np.inf)},
    "shape": lambda w: {**w, "weight": w["weight"][:-1]},
    "dtype": lambda w: {**w, "weight": w["weight"].astype(np.float64)},
    "missing": lambda w: {"other": w["weight"]},
    "extra": lambda w: {**w, "more": w["weight"]},
    "1e30": lambda w: {**w, "weight": w["weight"] * 0 + np.float32(1e30)},
    "empty": None,
    "ten times too large": lambda w: {**w, "weight": np.tile(w["weight"], 10)},
}
LIES = {
    "flip": lambda w, received: received - 10 * (w - received),
    "scale": lambda w, received: received + 100 * (w - received),
}


def spoilt(reply, fault, party, w):
    """The reply of a party with this fault: a lie, or another malformed reply each round."""
    if fault in LIES:
        lie = {name: LIES[fault](w[name], party.received[name]) for name in w}
        reply.content["arrays"] = record(lie)
    if fault == "malformed":
        change = list(MALFORMED.values())[(party.round - 1) % len(MALFORMED)]
        reply.content = (
            RecordDict() if change is None else RecordDict({"arrays": record(change(w))})
        )
    return reply


def record(arrays):
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})
