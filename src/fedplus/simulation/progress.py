"""The progress bar of a run, on a terminal only."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

Show = Callable[[int, str], None]
"""Called with the number of completed rounds and a text to show next to the bar."""


@contextlib.contextmanager
def progress_bar(rounds: int, completed: int, progress: bool | str | None) -> Iterator[Show]:
    """Show a bar on standard error with rounds, rounds per second and the time left.

    Args:
        rounds: T.
        completed: The number of rounds that are completed already.
        progress: True or False; None or a label: if standard error is a terminal and this is not CI.

    Returns:
        A context manager whose value updates the bar.
    """
    label = f"{progress}: " if isinstance(progress, str) else ""
    is_shown = bool(progress)
    if progress is None or label:
        is_shown = sys.stderr.isatty() and not os.environ.get("CI")
    if not is_shown:
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
        task = bar.add_task(label, total=rounds, completed=completed)
        yield lambda now, text: bar.update(task, completed=now, description=label + text)
