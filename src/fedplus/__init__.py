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
        """Return a name of ``_api``, or a package that it imports.

        ``_api`` is imported on first use, because it imports JAX, which takes a second. Flower starts
        a new process for every message to a party, and ``fedplus.flower.Party`` does not need JAX.
        """
        if name == "__all__" or not name.startswith("_"):
            api = vars(import_module("fedplus._api"))
            value = {**globals(), **api}.get(name)
            if value is not None:
                globals()[name] = value  # The next access does not call this function.
                return value
        raise AttributeError(f"module 'fedplus' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*globals(), *import_module("fedplus._api").__all__]
