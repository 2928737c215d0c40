"""What a study is, and what is asked of it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Files = Mapping[str, str]
"""Small files: name ↦ content."""
TRIED = ("local", "fedavg", "fedprox", "fedavg+", "fedgeomed+")
"""Methods of a quick try: compiling takes most of its time."""


class Asked(NamedTuple):
    """What the command line asks of a study."""

    folder: Path
    """For its runs and results."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    quick: bool = False
    """A try of half a minute or so: few rounds, methods and seeds, the same code."""
    jobs: int = 1
    """Processes to train in; with one, this process trains."""
    device: str | None = None
    """"cpu", "gpu", or None: what JAX finds."""
    only: str = ""
    """Only specifications that have this in their names."""
    methods: tuple[str, ...] = ()
    """Only these methods, by name; none: all."""

    @property
    def named(self) -> tuple[str, ...]:
        """The methods to keep; none: all."""
        return self.methods or (TRIED if self.quick else ())


class Study(NamedTuple):
    """One experiment of the paper, or one that questions it; the package's docstring says how."""

    name: str
    """As it is typed."""
    summary: str
    train: Callable[[Asked], None]
    collect: Callable[[Asked], Files]
    draw: Callable[[Path], Mapping[str, Any]]
    """Figures by name, from the folder of collected files; none of files that are not there."""
    blocks: Callable[[Path], Mapping[str, str]]
    """Markdown by name, from the same."""
