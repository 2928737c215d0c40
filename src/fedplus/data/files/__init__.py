"""Where data files are, how they get there, and how they are read. Nothing unpickles."""

from fedplus.data.files.locate import LocatedFile, choose_source, fetch, load_source, locate
from fedplus.data.files.source import DataError, File, Source

__all__ = [
    "DataError",
    "File",
    "LocatedFile",
    "Source",
    "choose_source",
    "fetch",
    "load_source",
    "locate",
]
