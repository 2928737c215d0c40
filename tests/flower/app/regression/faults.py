"""Faulty replies that a party can send instead of its model."""

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
    "flip": lambda w, w_global: w_global - 10 * (w - w_global),
    "scale": lambda w, w_global: w_global + 100 * (w - w_global),
}


def inject_fault(reply, fault, party, w):
    """Return the reply with a fault: a false model, or another malformed reply in each round."""
    if fault in LIES:
        lie = {name: LIES[fault](w[name], party.global_model[name]) for name in w}
        reply.content["arrays"] = to_record(lie)
    if fault == "malformed":
        change = list(MALFORMED.values())[(party.round - 1) % len(MALFORMED)]
        reply.content = (
            RecordDict() if change is None else RecordDict({"arrays": to_record(change(w))})
        )
    return reply


def to_record(arrays):
    """Return arrays as a record, without the checks and conversions of ``fedplus``."""
    return ArrayRecord({name: Array(array) for name, array in arrays.items()})
