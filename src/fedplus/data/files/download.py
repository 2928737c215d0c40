"""Downloads that resume after an interruption and never keep a file with a wrong checksum.

Pooch checks files and moves them into place; this module adds mirrors and resumption. Bytes are written
to ``NAME.part``; the next attempt requests only the bytes that are missing.
"""

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from fedplus.data.files.source import File, error_reason
from fedplus.extras import import_extra

ATTEMPTS = 3
PAUSE = 1.0
"""Seconds before the second attempt; twice that before the third."""
TIMEOUT = 30.0
"""The number of seconds without a new byte after which an attempt fails."""
CHUNK = 1 << 16

ShowProgress = Callable[[int, int | None], None]
"""(bytes so far, bytes in all if known)."""


def has_checksum(path: Path, checksum: str) -> bool:
    """Return True if the file has this checksum, or if the checksum is empty."""
    if not checksum:
        return True
    algorithm, _, expected = checksum.partition(":")
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest() == expected


def download(file: File, path: Path, show: bool | None = None) -> Path:
    """Download a file from the first of its addresses that serves it, and check it.

    Args:
        file: A file with at least one address.
        path: Where to put it; an older file there is replaced only by a valid one.
        show: Whether to show a progress bar; None shows it if standard error is a terminal and this
            is not CI.

    Returns:
        ``path``.

    Raises:
        OSError: No address served the file; the message has the reason for each address.
    """
    requests = import_extra("requests", "data", "downloading data")
    path.parent.mkdir(parents=True, exist_ok=True)
    reasons: dict[str, str] = {}
    for attempt in range(ATTEMPTS):
        for url in file.urls:
            try:
                return _download_once(file, url, path, show)
            except (OSError, ValueError, requests.RequestException) as error:
                reasons[url] = _reason(error)
        if attempt + 1 < ATTEMPTS:
            time.sleep(PAUSE * 2**attempt)
    raise OSError("the download failed: " + "; ".join(f"{u}: {r}" for u, r in reasons.items()))


def _download_once(file: File, url: str, path: Path, show: bool | None) -> Path:
    """Complete ``NAME.part``; pooch then checks it and moves it, or removes it if it is wrong."""
    pooch = import_extra("pooch", "data", "downloading data")
    pooch.get_logger().setLevel("WARNING")
    checked = path.with_name(path.name + ".new")
    part = path.with_name(path.name + ".part")
    with _progress_bar(path.name, show) as show_progress:
        _append_missing_bytes(url, part, show_progress)
    try:
        pooch.retrieve(
            url, file.checksum or None, fname=checked.name, path=str(path.parent),
            downloader=lambda url, output, pooch: part.replace(output),
        )  # fmt: skip
        checked.replace(path)
    finally:
        checked.unlink(missing_ok=True)
    return path


def _append_missing_bytes(url: str, part: Path, show_progress: ShowProgress) -> None:
    """Append the missing bytes to ``part``; start over if the server cannot resume."""
    requests = import_extra("requests", "data", "downloading data")
    done = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"}  # The checksum is that of the file as it is stored.
    if done:
        headers["Range"] = f"bytes={done}-"
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            part.unlink()
            raise OSError("the part that had arrived does not fit the file")
        response.raise_for_status()
        is_resumed = response.status_code == requests.codes.partial_content
        length = response.headers.get("Content-Length")
        first = done if is_resumed else 0
        total = first + int(length) if length else None
        with part.open("ab" if is_resumed else "wb", buffering=0) as out:
            _copy(response, out, first, total, show_progress)
        if total is not None and part.stat().st_size != total:
            raise OSError(f"{part.stat().st_size} of {total} bytes arrived")


def _copy(
    response: Any, out: IO[bytes], done: int, total: int | None, show_progress: ShowProgress
) -> None:
    try:
        for chunk in response.raw.stream(CHUNK, decode_content=False):
            out.write(chunk)
            done += len(chunk)
            show_progress(done, total)
    except Exception as error:  # urllib3 has many exceptions for a broken connection.
        raise OSError(f"the connection broke after {done} bytes ({_reason(error)})") from error
    finally:
        os.fsync(out.fileno())


def _reason(error: BaseException) -> str:
    """Return the cause of an error in one line.

    Requests and urllib3 wrap the cause, e.g. "Connection refused", in errors whose messages name their
    own objects; those are unwrapped.
    """
    prefix = ""
    while (inner := _wrapped_error(error)) is not None:
        if type(error).__name__ == "ProxyError":
            prefix = "the proxy failed: "
        error = inner
        if isinstance(error, OSError) and error.strerror:
            return prefix + " ".join(error.strerror.split())
    return prefix + error_reason(error)


def _wrapped_error(error: BaseException) -> BaseException | None:
    """Return the error that an error of requests or urllib3 wraps, or None."""
    if type(error).__module__.partition(".")[0] not in ("requests", "urllib3"):
        return None
    candidates = (error.__cause__, getattr(error, "reason", None), *reversed(error.args))
    return next((inner for inner in candidates if isinstance(inner, BaseException)), None)


@contextlib.contextmanager
def _progress_bar(name: str, show: bool | None) -> Iterator[ShowProgress]:
    if show is None:
        show = sys.stderr.isatty() and not os.environ.get("CI")
    if not show:
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
