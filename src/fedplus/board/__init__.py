"""The board: a local web page that shows a folder of runs and updates while they train."""

from fedplus.board.app import app
from fedplus.board.server import serve

__all__ = ["app", "serve"]
