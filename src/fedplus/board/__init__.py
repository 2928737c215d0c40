"""The board: a small local web page over a folder of runs, live while they go on."""

from fedplus.board.app import app
from fedplus.board.server import serve

__all__ = ["app", "serve"]
