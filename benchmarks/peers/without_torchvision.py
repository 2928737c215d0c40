"""Replace torchvision by modules of empty classes, because it has no small build.

Import this module before a peer that imports torchvision but does not need it to train.
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
