"""The example of ``docs/researcher.md`` runs as it stands."""

import re
from pathlib import Path
from typing import Any

import pytest

from firsthand.testing.recordings import make_recording

pytestmark = pytest.mark.process
PAGE = Path(__file__).parents[2] / "docs" / "researcher.md"


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    make_recording(tmp_path / "p01-demonstration-01", seconds=3.0)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    assert names["pixel"] == pytest.approx((200.0, 90.0), abs=0.1)
    assert names["joints"].shape == (26, 2)
    assert names["complete"]
    assert len(names["gaze"]) == 270
