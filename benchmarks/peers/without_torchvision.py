"""Import this before a peer that imports torchvision at its root and does not need it for FedAvg.

There is no small build of torchvision; its names become empty classes.
"""

import sys
import types


class Empty(types.ModuleType):
    """A module in which every name is an empty class."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


for name in ("torchvision", "torchvision.datasets", "torchvision.transforms"):
    sys.modules.setdefault(name, Empty(name))
