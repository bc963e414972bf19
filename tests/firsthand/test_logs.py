"""The app's log keeps secrets out, whoever wrote them."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from firsthand import logs

pytestmark = pytest.mark.unit
KEY = "sk-canary0123456789abcdef"


@pytest.fixture
def log_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FIRSTHAND_LOG_DIR", str(tmp_path))
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    logs.configure("test", level=logging.DEBUG)
    yield tmp_path / "test.log"
    for handler in set(root.handlers) - set(before):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.mark.parametrize(
    "line",
    [
        f"using {KEY}",
        f"Authorization: Bearer {KEY}",
        f"{{'api_key': '{KEY}'}}",
        "password=sk_canary_letmein",
        "authorization: Basic canarycanary==",
    ],
)
def test_a_key_in_a_message_never_reaches_the_file(log_file: Path, line: str) -> None:
    logging.getLogger("somebody.else").warning("%s", line)
    text = log_file.read_text()
    assert "canary" not in text
    assert "[secret]" in text


def test_a_key_in_a_traceback_never_reaches_the_file(log_file: Path) -> None:
    try:
        raise ValueError(KEY)
    except ValueError:
        logging.getLogger("here").exception("it failed")
    text = log_file.read_text()
    assert "ValueError" in text
    assert "canary" not in text


def test_ordinary_lines_stay_as_they_are(log_file: Path) -> None:
    logging.getLogger("firsthand").info("stream %s: %d packets", "pv", 812)
    assert "stream pv: 812 packets" in log_file.read_text()


def test_a_folder_that_cannot_be_made_does_not_stop_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("FIRSTHAND_LOG_DIR", str(blocker / "logs"))
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    logs.configure("test")
    added = set(root.handlers) - set(before)
    for handler in added:
        root.removeHandler(handler)
    root.setLevel(level)
    assert len(added) == 1
