"""Models; here alone are they raveled into the vectors that the rest of the library works on."""

from fedplus.models.model import Model
from fedplus.models.ravel import Raveled, ravel
from fedplus.models.task import BINARY, CLASSIFICATION, REGRESSION, Task

__all__ = ["BINARY", "CLASSIFICATION", "REGRESSION", "Model", "Raveled", "Task", "ravel"]
