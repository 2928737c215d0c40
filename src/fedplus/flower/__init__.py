"""Fed+ on real machines with Flower: a strategy for the server and a ``Party`` for each client."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedplus.flower.default_state_folder import state_folder
from fedplus.flower.party import Party

if TYPE_CHECKING:
    from fedplus.flower.in_process_grid import InProcessGrid
    from fedplus.flower.strategy import FedPlus
else:
    SERVER_NAMES = {
        "FedPlus": "fedplus.flower.strategy",
        "InProcessGrid": "fedplus.flower.in_process_grid",
    }

    def __getattr__(name: str) -> Any:
        """Import the server's classes on first use: they need JAX, which a party does not."""
        if name in SERVER_NAMES:
            return getattr(import_module(SERVER_NAMES[name]), name)
        raise AttributeError(f"module 'fedplus.flower' has no attribute {name!r}")


__all__ = ["FedPlus", "InProcessGrid", "Party", "state_folder"]
