"""The loops that XLA calls: what each is given, and what it has room for."""

from typing import Any

from fedplus.aggregation.native.coarse import look, look_in_threads
from fedplus.aggregation.native.few import near_median, near_median_in_threads
from fedplus.aggregation.native.following import follow
from fedplus.aggregation.native.frame import (
    BYTES,
    COUNTS,
    DOUBLES,
    INTEGERS,
    MATRIX,
    VECTOR,
    Takes,
)
from fedplus.aggregation.native.median import medians, medians_in_threads
from fedplus.aggregation.native.pulled import learn, set_out
from fedplus.aggregation.native.rows import (
    product,
    product_in_threads,
    reweigh,
    reweigh_in_threads,
)
from fedplus.aggregation.native.soft_median import soft_medians, soft_medians_in_threads
from fedplus.aggregation.native.turns import take_turn

_PRODUCT = Takes((MATRIX, VECTOR, INTEGERS), (VECTOR,))
_REWEIGH = Takes((MATRIX, VECTOR, VECTOR, VECTOR, INTEGERS), (VECTOR, VECTOR))
_NEAR_MEDIAN = Takes((MATRIX, VECTOR, VECTOR, INTEGERS), (VECTOR,))
_MEDIANS = Takes((MATRIX, VECTOR, VECTOR, VECTOR, INTEGERS), (VECTOR, INTEGERS, INTEGERS))
_SOFT_MEDIANS = Takes(
    (MATRIX, VECTOR, VECTOR, VECTOR, VECTOR, INTEGERS), (VECTOR, VECTOR, INTEGERS, INTEGERS)
)
_FOLLOW = Takes(
    (MATRIX, INTEGERS, MATRIX, VECTOR, VECTOR, *4 * (None,), INTEGERS),
    (MATRIX, COUNTS, DOUBLES, MATRIX, VECTOR, VECTOR, INTEGERS, INTEGERS),
)
_SET_OUT = Takes(
    (MATRIX, INTEGERS, MATRIX, *6 * (VECTOR,), *6 * (None,), INTEGERS),
    (*4 * (VECTOR,), BYTES, MATRIX, VECTOR, MATRIX, VECTOR),
)
_LOOK = Takes((MATRIX, BYTES, MATRIX, VECTOR, MATRIX, VECTOR, INTEGERS), (MATRIX,))
_TAKE_TURN = Takes((MATRIX, VECTOR, MATRIX, *6 * (None,)), (*4 * (VECTOR,), MATRIX, VECTOR))
_LEARN = Takes((*4 * (VECTOR,), *3 * (None,)), 3 * (VECTOR,))

LOOPS: dict[str, tuple[Any, Takes]] = {
    "product": (product, _PRODUCT),
    "product_in_threads": (product_in_threads, _PRODUCT),
    "reweigh": (reweigh, _REWEIGH),
    "reweigh_in_threads": (reweigh_in_threads, _REWEIGH),
    "near_median": (near_median, _NEAR_MEDIAN),
    "near_median_in_threads": (near_median_in_threads, _NEAR_MEDIAN),
    "medians": (medians, _MEDIANS),
    "medians_in_threads": (medians_in_threads, _MEDIANS),
    "soft_medians": (soft_medians, _SOFT_MEDIANS),
    "soft_medians_in_threads": (soft_medians_in_threads, _SOFT_MEDIANS),
    "follow": (follow, _FOLLOW),
    "set_out": (set_out, _SET_OUT),
    "look": (look, _LOOK),
    "look_in_threads": (look_in_threads, _LOOK),
    "take_turn": (take_turn, _TAKE_TURN),
    "learn": (learn, _LEARN),
}
