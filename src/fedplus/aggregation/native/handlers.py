"""The loops as XLA calls them, with arguments and room for results in its frame."""

from functools import cache
from typing import Any

from fedplus.aggregation.native.coarse_calls import begin, look, look_in_threads, renew, turn
from fedplus.aggregation.native.few import near_median, near_median_in_threads
from fedplus.aggregation.native.following import follow
from fedplus.aggregation.native.frame import (
    ARGUMENTS,
    RESULTS,
    callable_by_xla,
    counts,
    doubles,
    integers,
    matrix,
    octets,
    vector,
)
from fedplus.aggregation.native.loop import loop
from fedplus.aggregation.native.median import medians, medians_in_threads
from fedplus.aggregation.native.rows import (
    product,
    product_in_threads,
    reweigh,
    reweigh_in_threads,
)
from fedplus.aggregation.native.soft_median import soft_medians, soft_medians_in_threads


@loop
def _product(frame: Any) -> Any:
    return (
        matrix(frame, ARGUMENTS, 0), vector(frame, ARGUMENTS, 1), integers(frame, ARGUMENTS, 2),
        vector(frame, RESULTS, 0),
    )  # fmt: skip


@loop
def _reweigh(frame: Any) -> Any:
    return (
        matrix(frame, ARGUMENTS, 0), vector(frame, ARGUMENTS, 1), vector(frame, ARGUMENTS, 2),
        vector(frame, ARGUMENTS, 3), integers(frame, ARGUMENTS, 4),
        vector(frame, RESULTS, 0), vector(frame, RESULTS, 1),
    )  # fmt: skip


@loop
def _near_median(frame: Any) -> Any:
    return (
        matrix(frame, ARGUMENTS, 0), vector(frame, ARGUMENTS, 1), vector(frame, ARGUMENTS, 2),
        integers(frame, ARGUMENTS, 3), vector(frame, RESULTS, 0),
    )  # fmt: skip


@loop
def _medians(frame: Any) -> Any:
    return (
        matrix(frame, ARGUMENTS, 0), vector(frame, ARGUMENTS, 1), vector(frame, ARGUMENTS, 2),
        vector(frame, ARGUMENTS, 3), integers(frame, ARGUMENTS, 4),
        vector(frame, RESULTS, 0), integers(frame, RESULTS, 1), integers(frame, RESULTS, 2),
    )  # fmt: skip


@loop
def _soft_medians(frame: Any) -> Any:
    return (
        matrix(frame, ARGUMENTS, 0), vector(frame, ARGUMENTS, 1), vector(frame, ARGUMENTS, 2),
        vector(frame, ARGUMENTS, 3), vector(frame, ARGUMENTS, 4), integers(frame, ARGUMENTS, 5),
        vector(frame, RESULTS, 0), vector(frame, RESULTS, 1), integers(frame, RESULTS, 2),
        integers(frame, RESULTS, 3),
    )  # fmt: skip


@loop
def _follow(frame: Any) -> Any:
    # What is remembered is written where it was read.
    return (
        matrix(frame, ARGUMENTS, 0), integers(frame, ARGUMENTS, 1), matrix(frame, ARGUMENTS, 2),
        vector(frame, ARGUMENTS, 3), vector(frame, ARGUMENTS, 4), integers(frame, ARGUMENTS, 9),
        matrix(frame, RESULTS, 0), counts(frame, RESULTS, 1), doubles(frame, RESULTS, 2),
        matrix(frame, RESULTS, 3), vector(frame, RESULTS, 4), vector(frame, RESULTS, 5),
        integers(frame, RESULTS, 6), integers(frame, RESULTS, 7),
    )  # fmt: skip


@loop
def _renew(frame: Any) -> Any:
    return (
        matrix(frame, ARGUMENTS, 0), integers(frame, ARGUMENTS, 1), matrix(frame, ARGUMENTS, 2),
        vector(frame, ARGUMENTS, 3), vector(frame, ARGUMENTS, 4), vector(frame, ARGUMENTS, 5),
        integers(frame, ARGUMENTS, 12), vector(frame, RESULTS, 0), vector(frame, RESULTS, 1),
        vector(frame, RESULTS, 2), vector(frame, RESULTS, 3), octets(frame, RESULTS, 4),
        matrix(frame, RESULTS, 5), vector(frame, RESULTS, 6),
    )  # fmt: skip


@loop
def _look(frame: Any) -> Any:
    return (
        matrix(frame, ARGUMENTS, 0), octets(frame, ARGUMENTS, 1), matrix(frame, ARGUMENTS, 2),
        vector(frame, ARGUMENTS, 3), matrix(frame, ARGUMENTS, 4), vector(frame, ARGUMENTS, 5),
        integers(frame, ARGUMENTS, 6), vector(frame, RESULTS, 0),
    )  # fmt: skip


@loop
def _begin(frame: Any) -> Any:
    return (
        vector(frame, ARGUMENTS, 0), vector(frame, ARGUMENTS, 1), vector(frame, ARGUMENTS, 2),
        vector(frame, ARGUMENTS, 3), vector(frame, ARGUMENTS, 4),
        matrix(frame, RESULTS, 0), vector(frame, RESULTS, 1),
    )  # fmt: skip


@loop
def _turn(frame: Any) -> Any:
    return (
        matrix(frame, ARGUMENTS, 0), vector(frame, ARGUMENTS, 1), matrix(frame, ARGUMENTS, 2),
        vector(frame, RESULTS, 0), vector(frame, RESULTS, 1), vector(frame, RESULTS, 2),
        vector(frame, RESULTS, 3), matrix(frame, RESULTS, 4), vector(frame, RESULTS, 5),
    )  # fmt: skip


LOOPS: dict[str, tuple[Any, Any]] = {
    "product": (product, _product),
    "product_in_threads": (product_in_threads, _product),
    "reweigh": (reweigh, _reweigh),
    "reweigh_in_threads": (reweigh_in_threads, _reweigh),
    "follow": (follow, _follow),
    "renew": (renew, _renew),
    "begin": (begin, _begin),
    "look": (look, _look),
    "look_in_threads": (look_in_threads, _look),
    "turn": (turn, _turn),
    "near_median": (near_median, _near_median),
    "near_median_in_threads": (near_median_in_threads, _near_median),
    "medians": (medians, _medians),
    "medians_in_threads": (medians_in_threads, _medians),
    "soft_medians": (soft_medians, _soft_medians),
    "soft_medians_in_threads": (soft_medians_in_threads, _soft_medians),
}
"""Each loop, and what finds its arguments in a frame."""


@cache
def handler(name: str) -> Any:
    """A loop as XLA can call it, kept for as long as the process lives."""
    return callable_by_xla(*LOOPS[name])
