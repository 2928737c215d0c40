"""Fed+ across real machines, on Flower: a strategy for the server, a ``Party`` for each client."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedplus.flower.party import Party
from fedplus.flower.restore import state_folder

if TYPE_CHECKING:
    from fedplus.flower.in_process_grid import InProcessGrid
    from fedplus.flower.strategy import FedPlus
else:
    SERVERS = {
        "FedPlus": "fedplus.flower.strategy",
        "InProcessGrid": "fedplus.flower.in_process_grid",
    }

    def __getattr__(name: str) -> Any:
        """What the server needs, and with it JAX: a party does without."""
        if name in SERVERS:
            return getattr(import_module(SERVERS[name]), name)
        raise AttributeError(f"module 'fedplus.flower' has no attribute {name!r}")


__all__ = ["FedPlus", "InProcessGrid", "Party", "state_folder"]
