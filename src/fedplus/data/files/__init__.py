"""Where data files are, how they get there, and how they are read. Nothing unpickles."""

from fedplus.data.files.file import DataError, File, Source
from fedplus.data.files.finding import Found, chosen, fetch, find, obtain

__all__ = ["DataError", "File", "Found", "Source", "chosen", "fetch", "find", "obtain"]
