"""Fed+ across real machines, on Flower: a strategy for the server, a ``Party`` for each client."""

from fedplus.flower.grid import InProcessGrid
from fedplus.flower.kept import state_folder
from fedplus.flower.party import Party
from fedplus.flower.strategy import FedPlus

__all__ = ["FedPlus", "InProcessGrid", "Party", "state_folder"]
