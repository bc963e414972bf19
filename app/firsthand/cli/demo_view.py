"""How the demonstration shows itself: redrawn in a terminal, line by line elsewhere."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from firsthand.cli import called_as
from firsthand.cli.streams_view import line, table
from firsthand.recording.recorder_settings import RecorderStatus
from firsthand.session.demo import DemoPhase, DemoReport
from firsthand.session.notices import Level, Notice

_STYLES: Final = {
    Level.INFO: "dim", Level.GOOD: "green", Level.CUE: "cyan", Level.TROUBLE: "bold red",
}  # fmt: skip
_PLAIN_EVERY_S: Final = 5.0
_MB: Final = 1e6
_NOTICES: Final = 4


class View(Protocol):
    """What the demonstration is watched by; used as a context manager."""

    def stage(self, words: str) -> None: ...

    def notice(self, notice: Notice) -> None: ...

    def tick(self, status: RecorderStatus | None, spent_s: float, of_s: float) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class SilentView:
    """Shows nothing: for ``--json``."""

    def stage(self, words: str) -> None:
        """Nothing."""

    def notice(self, notice: Notice) -> None:
        """Nothing."""

    def tick(self, status: RecorderStatus | None, spent_s: float, of_s: float) -> None:
        """Nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


class PlainView(SilentView):
    """A line for each thing that happens, with the seconds since the start."""

    def __init__(
        self, write: Callable[[str], None], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._clock_s = clock_s
        self._began_s = clock_s()
        self._told_s = 0.0
        self._said = ""

    def stage(self, words: str) -> None:
        """Something begins."""
        self._write(f"[{self._clock_s() - self._began_s:5.1f} s] {words}")

    def notice(self, notice: Notice) -> None:
        """Progress is told when its words change, everything else always."""
        if notice.share is None or notice.words != self._said:
            self._said = notice.words
            sign = "! " if notice.level is Level.TROUBLE else ""
            self._write(f"          {sign}{notice.words}")

    def tick(self, status: RecorderStatus | None, spent_s: float, of_s: float) -> None:
        """A line every five seconds."""
        if status is not None and self._clock_s() - self._told_s >= _PLAIN_EVERY_S:
            self._told_s = self._clock_s()
            self._write(f"          {_spent(spent_s, of_s)}: {line(status)}")


class LiveView(SilentView):
    """Redraws what is going on below what is done."""

    def __init__(self, console: Console) -> None:
        self._done: list[tuple[str, float]] = []
        self._now = ""
        self._since = time.monotonic()
        self._notices: list[Notice] = []
        self._share: tuple[float, str] | None = None
        self._streams: RecorderStatus | None = None
        self._live = Live(console=console, refresh_per_second=8, transient=True)
        self._console = console

    def stage(self, words: str) -> None:
        """The stage before it is done; its line stays."""
        self._finish()
        self._now, self._since = words, time.monotonic()
        self._draw()

    def notice(self, notice: Notice) -> None:
        """Steps and progress below the stage; trouble stays on the screen."""
        if notice.share is not None:
            self._share = (notice.share, notice.words)
            self._streams = None
        elif notice.level is Level.TROUBLE:
            self._console.print(Text(f"  ! {notice.words}", style=_STYLES[notice.level]))
        else:
            self._share = None
            self._notices = [*self._notices, notice][-_NOTICES:]
        self._draw()

    def tick(self, status: RecorderStatus | None, spent_s: float, of_s: float) -> None:
        """The task's progress with every stream's health."""
        self._share = (spent_s / of_s if of_s else 1.0, _spent(spent_s, of_s))
        self._streams = status
        self._draw()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finish()
        self._live.stop()

    def _finish(self) -> None:
        if self._now:
            seconds = time.monotonic() - self._since
            self._console.print(Text.assemble(("✓ ", "green"), self._now, f"  {seconds:.1f} s"))
        self._now, self._notices, self._share, self._streams = "", [], None, None
        self._live.update("")

    def _draw(self) -> None:
        parts: list[RenderableType] = [Spinner("dots", Text(self._now))]
        parts += [
            Padding(Text(notice.words, style=_STYLES[notice.level]), (0, 0, 0, 4))
            for notice in self._notices
        ]
        if self._share is not None:
            share, words = self._share
            bar = Table.grid(padding=(0, 2))
            bar.add_row(ProgressBar(total=1.0, completed=min(1.0, share), width=36), Text(words))
            parts.append(Padding(bar, (0, 0, 0, 4)))
        if self._streams is not None:
            parts.append(Padding(table(self._streams), (0, 0, 0, 4)))
        self._live.update(Group(*parts))


def report(done: DemoReport) -> RenderableType:
    """The summary at the end, for a terminal of any width; what to do next is in ``closing``."""
    parts: list[RenderableType] = []
    for phase in done.phases:
        style, sign = ("green", "✓") if phase.good else ("red", "✗")
        parts.append(Text.assemble((f"{sign} ", style), (phase.result.folder.name, "bold")))
        parts.append(Padding(Group(*(Text(words) for words in _words(phase))), (0, 0, 1, 4)))
    return Panel(
        Group(*parts),
        title=headline(done),
        border_style="green" if done.good else "red",
        padding=(1, 2, 0, 2),
    )


def plain_report(done: DemoReport) -> list[str]:
    """The summary as lines."""
    lines = ["", headline(done), ""]
    for phase in done.phases:
        sign = "good" if phase.good else "NOT GOOD"
        lines.append(f"{phase.result.folder.name}: {sign}")
        lines += [f"    {words}" for words in _words(phase)]
        lines.append("")
    return lines + closing(done)


def headline(done: DemoReport) -> str:
    """The whole demonstration in a few words."""
    if done.interrupted:
        return "Stopped early; what was recorded is kept"
    if not done.good:
        return "The demonstration did not come out as it should"
    return f"Two sessions recorded, checked and exported in {done.seconds:.0f} s"


def closing(done: DemoReport) -> list[str]:
    """Where everything is, and what to do next."""
    words = [f"Everything is in {_place(done.out)}"]
    videos = [path for phase in done.phases for path in phase.exports if path.suffix == ".mp4"]
    if videos:
        words.append(f"Look at it:    {_place(videos[0])}")
    if done.phases:
        words.append(f"Look into it:  {called_as()} info {_place(done.phases[0].result.folder)}")
    words.append(f"The study:     {called_as()} study status {_place(done.out)}")
    return words


def _place(path: Path) -> str:
    """The path as it can be typed in the folder where the command was given."""
    here = Path.cwd()
    place = str(path.relative_to(here) if path.is_relative_to(here) else path)
    return f'"{place}"' if " " in place else place


def _words(phase: DemoPhase) -> list[str]:
    verdict, finished = phase.result.verdict, phase.result.finished
    words: list[str] = []
    if verdict is not None:
        words.append(verdict.numbers.words)
    if finished is not None:
        lost = f"{finished.lost} known to be lost" if finished.lost else "none lost"
        words.append(f"{finished.packets:,} packets stored, {lost}")
    if verdict is not None:
        words += [verdict.words, *(f"- {finding}" for finding in verdict.findings)]
    words += [f"! {trouble}" for trouble in (*phase.result.trouble, *phase.trouble)]
    for path in phase.exports:
        words.append(f"{path.name}  {_size(path.stat().st_size)}")
    if verdict is None:
        words.append(f"Ended: {phase.result.outcome.value.replace('_', ' ')}.")
        words.append(phase.result.reason)
    return words


def _size(nbytes: int) -> str:
    if nbytes < 1000:
        return f"{nbytes} bytes"
    return f"{nbytes / _MB:.1f} MB" if nbytes >= _MB else f"{nbytes / 1000:.0f} kB"


def _spent(spent_s: float, of_s: float) -> str:
    return f"{spent_s:.0f} of {of_s:.0f} s" if spent_s else "waiting for every stream"
