"""Downloads that go on where they stopped, and keep nothing with a wrong checksum.

Pooch checks and moves files into place; what it lacks (mirrors, going on after a broken connection) is
here. Bytes arrive in ``NAME.part``; a second try asks the server for the rest only.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from fedplus.data.files.source import File

TRIES = 3
PAUSE = 1.0
"""Seconds before the second try; twice that before the third."""
TIMEOUT = 30.0
"""Seconds without a byte."""
CHUNK = 1 << 16

Show = Callable[[int, int | None], None]
"""(bytes so far, bytes in all if known)."""


def has_checksum(path: Path, checksum: str) -> bool:
    """Whether a file has this checksum; an empty one says nothing, and any file has it."""
    if not checksum:
        return True
    import pooch

    algorithm, _, wanted = checksum.partition(":")
    return bool(pooch.file_hash(str(path), alg=algorithm) == wanted)


def download(file: File, path: Path, show: bool | None = None) -> Path:
    """The file at ``path``, whole and checked; ``OSError`` says what each address answered.

    Args:
        file: With at least one address.
        path: Where it goes; an older file there is replaced only by a good one.
        show: A progress bar: None: if standard error is a terminal and this is not CI.
    """
    import requests

    path.parent.mkdir(parents=True, exist_ok=True)
    said: dict[str, str] = {}
    for attempt in range(TRIES):
        for url in file.urls:
            try:
                return _one_try(file, url, path, show)
            except (OSError, ValueError, requests.RequestException) as error:
                said[url] = _reason(error)
        if attempt + 1 < TRIES:
            time.sleep(PAUSE * 2**attempt)
    raise OSError("the download failed: " + "; ".join(f"{u}: {why}" for u, why in said.items()))


def _one_try(file: File, url: str, path: Path, show: bool | None) -> Path:
    """The bytes arrive first; pooch then checks them and moves them, or removes them if wrong."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    fresh = path.with_name(path.name + ".new")
    part = path.with_name(path.name + ".part")
    with _bar(path.name, show) as say:
        _arrive(url, part, say)
    try:
        pooch.retrieve(
            url, file.checksum or None, fname=fresh.name, path=str(path.parent),
            downloader=lambda url, output, pooch: part.replace(output),
        )  # fmt: skip
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return path


def _arrive(url: str, part: Path, say: Show) -> None:
    """Append what is missing to ``part``; start over where the server cannot go on."""
    import requests

    done = part.stat().st_size if part.exists() else 0
    ask = {"Accept-Encoding": "identity"}  # The file as it is: its checksum is of that.
    if done:
        ask["Range"] = f"bytes={done}-"
    with requests.get(url, headers=ask, stream=True, timeout=TIMEOUT) as answer:
        if answer.status_code == requests.codes.requested_range_not_satisfiable:
            part.unlink()
            raise OSError("the part that had arrived does not fit the file")
        answer.raise_for_status()
        goes_on = answer.status_code == requests.codes.partial_content
        length = answer.headers.get("Content-Length")
        first = done if goes_on else 0
        total = first + int(length) if length else None
        with part.open("ab" if goes_on else "wb", buffering=0) as out:
            _copy(answer, out, first, total, say)
        if total is not None and part.stat().st_size != total:
            raise OSError(f"{part.stat().st_size} of {total} bytes arrived")


def _copy(answer: Any, out: IO[bytes], first: int, total: int | None, say: Show) -> None:
    try:
        for chunk in answer.raw.stream(CHUNK, decode_content=False):
            out.write(chunk)
            first += len(chunk)
            say(first, total)
    except Exception as error:  # urllib3 has many names for a connection that broke.
        raise OSError(f"the connection broke after {first} bytes ({_reason(error)})") from error
    finally:
        os.fsync(out.fileno())


def _reason(error: Exception) -> str:
    told = str(error).strip().splitlines()
    return (told[0] if told else type(error).__name__)[:200]


@contextlib.contextmanager
def _bar(name: str, wanted: bool | None) -> Iterator[Show]:
    if wanted is None:
        wanted = sys.stderr.isatty() and not os.environ.get("CI")
    if not wanted:
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
