"""Models, their losses and scores, and their conversion to parameter vectors.

Only this package ravels parameters; the rest of the library works on vectors.
"""

from fedplus.models.cnn import cnn
from fedplus.models.eiie import eiie
from fedplus.models.frameworks import from_equinox, from_flax
from fedplus.models.linear import linear, logistic
from fedplus.models.lstm import lstm
from fedplus.models.mlp import mlp
from fedplus.models.model import Model
from fedplus.models.portfolio_task import portfolio_growth
from fedplus.models.ravel import Raveled, ravel
from fedplus.models.task import BINARY, CLASSIFICATION, REGRESSION, Task

__all__ = [
    "BINARY",
    "CLASSIFICATION",
    "REGRESSION",
    "Model",
    "Raveled",
    "Task",
    "cnn",
    "eiie",
    "from_equinox",
    "from_flax",
    "linear",
    "logistic",
    "lstm",
    "mlp",
    "portfolio_growth",
    "ravel",
]  # fmt: skip
