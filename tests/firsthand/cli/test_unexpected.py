"""What a command does about an error that nobody foresaw."""

import logging
import sys
from pathlib import Path

import pytest

from firsthand import cli

pytestmark = pytest.mark.unit


def test_an_unforeseen_error_is_one_sentence_and_its_details_are_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: object) -> None:
        raise RuntimeError("what nobody foresaw")

    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setenv("FIRSTHAND_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setattr(sys, "argv", ["firsthand", "info", "x"])
    monkeypatch.setattr(cli, "build", fails)
    level = root.level
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 1
    finally:
        for handler in root.handlers:
            handler.close()
        root.setLevel(level)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert str(tmp_path / "logs") in said
    assert "what nobody foresaw" in (tmp_path / "logs" / "firsthand.log").read_text("utf-8")
