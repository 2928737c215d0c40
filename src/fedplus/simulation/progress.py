"""What a person sees while a run goes on; nothing where no person looks."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

Show = Callable[[int, str], None]
"""(rounds done, what to say beside)."""


@contextlib.contextmanager
def progress(rounds: int, done: int, wanted: bool | str | None) -> Iterator[Show]:
    """A bar on standard error: rounds, rounds a second, time left.

    Args:
        rounds: T.
        done: Rounds that an earlier run has done.
        wanted: None or a text to show: if standard error is a terminal and this is not CI.
    """
    label = f"{wanted}: " if isinstance(wanted, str) else ""
    if wanted is None or label:
        wanted = sys.stderr.isatty() and not os.environ.get("CI")
    if not wanted:
        yield lambda now, text: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:.3g} rounds/s" if speed else "compiling", style="cyan")

    columns = (
        BarColumn(), MofNCompleteColumn(), Speed(), TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=rounds, completed=done)
        yield lambda now, text: bar.update(task, completed=now, description=label + text)
