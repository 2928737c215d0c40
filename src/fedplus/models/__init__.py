"""Models as flat vectors; raveling happens here and nowhere else."""

from fedplus.models.ravel import Raveled, ravel

__all__ = ["Raveled", "ravel"]
