"""Robust, personalised federated learning: Fed+ as one algorithm.

>>> import numpy as np
>>> import fedplus as fp
>>> models = np.array([[1.0, 2.0], [1.2, 2.1], [0.9, 1.9], [80.0, -90.0]])
>>> fp.Moreau(fp.L2(0.1))(models).w.round(1).tolist()
[1.0, 2.0]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fedplus._api import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Names of ``_api``, and the packages that it imports.

        They come with JAX, which takes a second. ``fedplus.flower.Party`` does without, and Flower
        starts a process for every message that a party gets.
        """
        if name == "__all__" or not name.startswith("_"):
            api = vars(import_module("fedplus._api"))
            found = {**globals(), **api}.get(name)
            if found is not None:
                globals()[name] = found  # Not asked for again.
                return found
        raise AttributeError(f"module 'fedplus' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*globals(), *import_module("fedplus._api").__all__]
