"""The interface of a study: its options from the command line, and its four steps."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Files = Mapping[str, str]
"""Small files: name ↦ content."""
QUICK_METHODS = ("local", "fedavg", "fedprox", "fedavg+", "fedgeomed+")
"""Methods of a quick trial. They are few because most of its time goes into compilation."""


class StudyOptions(NamedTuple):
    """The options of a study, from the command line."""

    folder: Path
    """Folder for the runs and results of the study."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    quick: bool = False
    """Run a trial of about half a minute: few rounds, methods and seeds, but the same code."""
    jobs: int = 1
    """Number of processes that train; with 1, this process trains."""
    device: str | None = None
    """"cpu", "gpu", or None for the device that JAX finds."""
    only: str = ""
    """Use only specifications whose names contain this text."""
    methods: tuple[str, ...] = ()
    """Use only these methods, by name; () means all."""

    @property
    def selected_methods(self) -> tuple[str, ...]:
        """The names of the methods to use; () means all."""
        return self.methods or (QUICK_METHODS if self.quick else ())


class Study(NamedTuple):
    """One experiment of the paper, or one that questions it; see the package's docstring."""

    name: str
    """Name of the study on the command line."""
    summary: str
    train: Callable[[StudyOptions], None]
    collect: Callable[[StudyOptions], Files]
    draw: Callable[[Path], Mapping[str, Any]]
    """Return figures by name, drawn from the folder of results; {} if its files are missing."""
    blocks: Callable[[Path], Mapping[str, str]]
    """Return Markdown texts by name, from the same folder."""
