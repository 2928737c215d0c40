"""Passes over W as machine code, inside JAX's programs or without them, where Numba is installed.

On a CPU, XLA strides through memory where rows are added, and takes a number at a time where they are
counted; loops compiled for the purpose (``pip install "fedplus[numba]"``) are several times faster and
find the same. They are for models of 32 bits and a large W: of 16,384 entries or more where it is
aggregated by itself (``alone``: JAX is not asked), of a million in a program (of ``simulate``, or your
own). ``FEDPLUS_NUMBA=always`` takes them for all. Without Numba, on a GPU, and with
``FEDPLUS_NUMBA=off``, aggregation is XLA's alone.
"""

from fedplus.aggregation.native.calls import (
    FEW,
    ROOM,
    followed,
    learned,
    look,
    medians,
    near_median,
    product,
    reweigh,
    set_out,
    soft_medians,
    steps_of,
    turned,
    walk_of,
)
from fedplus.aggregation.native.layout import TOLD, Shape, Turn
from fedplus.aggregation.native.place import Part, all_of, lying_in, taken_anew
from fedplus.aggregation.native.switch import expect, in_memory, meanwhile, usable, using, without

__all__ = [
    "FEW",
    "ROOM",
    "TOLD",
    "Part",
    "Shape",
    "Turn",
    "all_of",
    "expect",
    "followed",
    "in_memory",
    "learned",
    "look",
    "lying_in",
    "meanwhile",
    "medians",
    "near_median",
    "product",
    "reweigh",
    "set_out",
    "soft_medians",
    "steps_of",
    "taken_anew",
    "turned",
    "usable",
    "using",
    "walk_of",
    "without",
]
