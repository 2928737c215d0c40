"""``SETS``: the data sets that ``load`` knows by name.

To add one, write a module here that defines a ``DataSet``, and list it in ``SETS``.
"""

from fedplus.data.sets import (
    digits,
    femnist,
    femnist_standin,
    heart_disease,
    mnist,
    mnist_variants,
    mnist_writers,
    parkinsons,
    portfolio,
    school,
    sent140,
    sent140_standin,
    synthetic,
    synthetic_regression,
)
from fedplus.data.sets.base import DataSet

SETS: dict[str, DataSet] = {
    data_set.name: data_set
    for data_set in (
        digits.ROBUST,
        digits.PERSONAL,
        synthetic_regression.SET,
        mnist_variants.ROBUST,
        mnist_variants.PERSONAL,
        synthetic.SET,
        mnist.SET,
        femnist.SET,
        femnist_standin.SET,
        sent140.SET,
        sent140_standin.SET,
        portfolio.SET,
        heart_disease.SET,
        parkinsons.SET,
        school.SET,
        mnist_writers.SET,
    )
}

__all__ = ["SETS", "DataSet"]
