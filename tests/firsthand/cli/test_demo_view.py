"""What the demonstration shows, with and without a terminal that can be redrawn."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from firsthand.cli.demo_view import LiveView, PlainView, closing, plain_report, report
from firsthand.recording.recorder_settings import RecorderSettings
from firsthand.session.demo import DemoPhase, DemoReport
from firsthand.session.effects import Outcome
from firsthand.session.notices import Level, Notice
from firsthand.session.result import Result
from firsthand.session.tools import Finished, InNumbers, Verdict
from firsthand.testing.session_tools import FakeRecorder, health

pytestmark = pytest.mark.unit


def finished(folder: Path, *, good: bool = True) -> DemoPhase:
    video = folder / "video.mp4"
    video.write_bytes(b"x" * 2_500_000)
    numbers = InNumbers(duration_s=95, pictures=2850, gaze_valid=0.94, gaps=0 if good else 2)
    findings = () if good else ("pv (losses): 77 packets lost",)
    verdict = Verdict(good, "The verdict.", findings, numbers)
    result = Result(
        folder / "sim01-demonstration-01",
        Outcome.COMPLETED,
        Finished("complete", 12345, 0 if good else 77, 1.0),
        verdict,
    )
    return DemoPhase("demonstration", result, (video,))


def drawn(done: DemoReport) -> str:
    text = io.StringIO()
    Console(file=text, width=100).print(report(done))
    return text.getvalue()


def test_a_good_end_says_what_there_is_and_what_to_do_next(tmp_path: Path) -> None:
    phase = finished(tmp_path)
    done = DemoReport(tmp_path / "out", (phase, phase), 68.4)
    for text in ("\n".join(plain_report(done)), drawn(done)):
        assert "Two sessions recorded, checked and exported in 68 s" in text
        assert "1 min 35 s, 2,850 pictures, gaze valid 94 %, no gaps" in text
        assert "12,345 packets stored, none lost" in text
        assert "video.mp4  2.5 MB" in text


def test_what_to_do_next_can_be_typed_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FIRSTHAND_CALLED_AS", "python3 dev.py app")
    words = closing(DemoReport(tmp_path / "a demo", (finished(tmp_path),), 68.4))
    assert 'Everything is in "a demo"' in words
    assert "Look at it:    video.mp4" in words
    assert "Look into it:  python3 dev.py app info sim01-demonstration-01" in words
    assert 'The study:     python3 dev.py app study status "a demo"' in words


def test_a_place_elsewhere_is_told_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIRSTHAND_CALLED_AS", raising=False)
    words = closing(DemoReport(tmp_path, (), 1.0))
    assert f"The study:     firsthand study status {tmp_path}" in words


def test_a_bad_end_says_what_is_wrong(tmp_path: Path) -> None:
    done = DemoReport(tmp_path, (finished(tmp_path, good=False),), 30.0)
    assert not done.good
    for text in ("\n".join(plain_report(done)), drawn(done)):
        assert "did not come out as it should" in text
        assert "- pv (losses): 77 packets lost" in text


def test_text_from_elsewhere_is_never_markup(tmp_path: Path) -> None:
    nothing = Result(tmp_path, Outcome.STOPPED, None, None, ("[bold]no[/bold] [/nonsense]",))
    assert "[bold]no[/bold] [/nonsense]" in drawn(
        DemoReport(tmp_path, (DemoPhase("demonstration", nothing, ()),), 1.0)
    )


def test_lines_come_for_every_stage_and_not_for_every_tick() -> None:
    lines: list[str] = []
    now = [100.0]
    view = PlainView(lines.append, lambda: now[0])
    status = FakeRecorder(settings_of(), 1, streams=[health("pv")]).status()
    view.stage("Making a study")
    for tick in range(40):
        now[0] = 100 + tick / 4
        view.tick(status, tick / 4, 10.0)
        view.notice(Notice(Level.INFO, "checking", tick / 40))
    assert lines[0] == "[  0.0 s] Making a study"
    assert sum("pv good" in line for line in lines) == 2
    assert sum("checking" in line for line in lines) == 1


def settings_of() -> RecorderSettings:
    return RecorderSettings(folder=Path(), devices=[])


def test_the_redrawn_view_keeps_trouble_on_the_screen() -> None:
    text = io.StringIO()
    console = Console(file=text, width=100, force_terminal=True)
    status = FakeRecorder(settings_of(), 1, streams=[health("pv", silent=True)]).status()
    with LiveView(console) as view:
        view.stage("Showing a task")
        view.notice(Notice(Level.INFO, "Headset check"))
        view.tick(status, 3.0, 10.0)
        view.notice(Notice(Level.TROUBLE, "The stream pv delivers [nothing]."))
        view.stage("Exporting")
    shown = text.getvalue()
    assert "The stream pv delivers [nothing]." in shown
    assert "Showing a task" in shown
