"""Data files: where they are, how they are downloaded and checked, and how they are parsed.

- ``formats.py`` parses CSV, npz, idx and zip files; ``limits.py`` bounds the memory that this takes.
- ``source.py`` describes a file and its origin; ``locate.py`` finds or downloads it and reads it.
- ``search_path.py`` lists the folders to search; ``download.py`` fetches what is missing.

No reader unpickles objects.
"""

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
