"""Finds data files, downloads those that are missing, and reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedplus.data.files import search_path
from fedplus.data.files.download import download, has_checksum
from fedplus.data.files.source import DataError, File, Source


class LocatedFile(NamedTuple):
    """A file and its path, or None if it is in none of the searched folders."""

    file: File
    path: Path | None


def locate(source: Source) -> list[LocatedFile]:
    """Return where a source's files are; nothing is downloaded or checked."""
    return [LocatedFile(file, _find(file)) for file in source.files]


def choose_source(sources: Sequence[Source]) -> Source:
    """Return the first source whose files are all present, else the first that can be downloaded."""
    for source in sources:
        if all(located.path for located in locate(source)):
            return source
    for source in sources:
        if all(located.path or located.file.urls for located in locate(source)):
            return source
    return sources[-1]


def fetch(sources: Sequence[Source], show: bool | None = None) -> tuple[Source, list[Path]]:
    """Find or download the files of one source, and check them.

    Args:
        sources: Different files with the same data.
        show: Whether to show progress bars; None shows them if standard error is a terminal and
            this is not CI.

    Returns:
        The chosen source and the paths of its files.

    Raises:
        DataError: A file is absent and cannot be downloaded, or has a wrong checksum.
    """
    source = choose_source(sources)
    return source, [_checked_path(located, show) for located in locate(source)]


def load_source(sources: Sequence[Source]) -> Any:
    """Fetch the files of one of the sources and return the data in them."""
    source, paths = fetch(sources)
    return source(paths)


def _find(file: File) -> Path | None:
    paths = (folder / file.path for folder in search_path.search_folders())
    return next((path for path in paths if path.is_file()), None)


def _checked_path(located: LocatedFile, show: bool | None) -> Path:
    file, path = located
    cached = search_path.cache_folder() / file.path
    if path is not None and has_checksum(path, file.checksum):
        return path
    if path is not None and (path != cached or not file.urls):
        raise DataError(
            f"{path} must have the checksum {file.checksum}, got another: it is damaged or another "
            f"version. Replace it (from {file.comes_from}) or remove it."
        )
    if not file.urls or search_path.is_offline():
        reason = f"{search_path.OFFLINE} is set" if file.urls else "it cannot be downloaded"
        raise DataError(_absence_message(file, cached, reason))
    try:
        return download(file, cached, show)
    except OSError as error:
        raise DataError(_absence_message(file, cached, str(error))) from error


def _absence_message(file: File, cached: Path, reason: str) -> str:
    checksum = f" ({file.checksum})" if file.checksum else ""
    return (
        f"{file.path} was not found, and {reason}. It comes from "
        f"{file.comes_from}{checksum}. Put it at {cached}, or in a folder of the same layout that "
        f"{search_path.VARIABLE} names."
    )
