"""A line of progress for commands that take their time; nothing where nobody watches."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from firsthand.api import Progress as Told


@contextmanager
def shown(words: str, *, quiet: bool = False) -> Iterator[Told]:
    """Something to tell progress to (0 to 1), shown on the error output if that is a terminal."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
    with bar:
        task = bar.add_task(Text(words).markup, total=1.0)

        def tell(done: float, words: str = "") -> None:
            del words  # what is done stands in front of the bar already
            bar.update(task, completed=done)

        yield tell
