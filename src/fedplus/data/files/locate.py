"""Finds data files, downloads what is missing, and reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedplus.data.files import search_path
from fedplus.data.files.download import download, has_checksum
from fedplus.data.files.source import DataError, File, Source


class LocatedFile(NamedTuple):
    """A file, and where it is if it is there."""

    file: File
    path: Path | None


def locate(source: Source) -> list[LocatedFile]:
    """Where a source's files are; nothing is downloaded, nothing is checked."""
    return [LocatedFile(file, _there(file)) for file in source.files]


def choose_source(sources: Sequence[Source]) -> Source:
    """The first source whose files are all there, else the first that can be downloaded."""
    for source in sources:
        if all(found.path for found in locate(source)):
            return source
    for source in sources:
        if all(found.path or found.file.urls for found in locate(source)):
            return source
    return sources[-1]


def fetch(sources: Sequence[Source], show: bool | None = None) -> tuple[Source, list[Path]]:
    """The chosen source and its files: found, or downloaded, and checked.

    Args:
        sources: Different files with the same data.
        show: Progress bars: None: if standard error is a terminal and this is not CI.
    """
    source = choose_source(sources)
    return source, [_path(found, show) for found in locate(source)]


def load_source(sources: Sequence[Source]) -> Any:
    """The data itself."""
    source, paths = fetch(sources)
    return source(paths)


def _there(file: File) -> Path | None:
    return next((p for f in search_path.search_folders() if (p := f / file.path).is_file()), None)


def _path(found: LocatedFile, show: bool | None) -> Path:
    file, path = found
    cached = search_path.cache_folder() / file.path
    if path is not None and has_checksum(path, file.checksum):
        return path
    if path is not None and (path != cached or not file.urls):
        raise DataError(
            f"{path} must have the checksum {file.checksum}, got another: it is damaged or another "
            f"version. Replace it (from {file.comes_from}) or remove it."
        )
    if not file.urls or search_path.is_offline():
        why = f"{search_path.OFFLINE} is set" if file.urls else "it cannot be downloaded"
        raise DataError(_absent(file, cached, why))
    try:
        return download(file, cached, show)
    except OSError as error:
        raise DataError(_absent(file, cached, str(error))) from error


def _absent(file: File, cached: Path, why: str) -> str:
    wanted = f" ({file.checksum})" if file.checksum else ""
    return (
        f"{file.path} must be there, got no such file, and {why}. It comes from "
        f"{file.comes_from}{wanted}. Put it at {cached}, or in a folder of the same layout that "
        f"{search_path.VARIABLE} names."
    )
