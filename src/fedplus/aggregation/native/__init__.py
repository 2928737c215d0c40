"""Passes over W as machine code inside JAX's programs, where Numba is installed.

On a CPU, XLA strides through memory where rows are added, and takes a number at a time where they are
counted; loops compiled for the purpose (``pip install "fedplus[numba]"``) are several times faster and
find the same. They are for models of 32 bits and, in a program (of ``simulate``, or your own), for a W
of a million entries or more. Without Numba, on a GPU, and with ``FEDPLUS_NUMBA=off``, aggregation is
XLA's alone.
"""

from fedplus.aggregation.native.calls import medians, product, reweigh, soft_medians
from fedplus.aggregation.native.switch import (
    lying_in,
    most_threads,
    taken_anew,
    usable,
    using,
    without,
)

__all__ = [
    "lying_in",
    "medians",
    "most_threads",
    "product",
    "reweigh",
    "soft_medians",
    "taken_anew",
    "usable",
    "using",
    "without",
]
