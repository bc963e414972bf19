"""``firsthand simulate``: what it understands, and how it ends."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from firsthand.api import SettingsError, SimulatedFault
from firsthand.cli.simulate import parse_fault, parse_setting
from firsthand.testing.raw_peer import RawPeer, comes_to_listen

HOST = "127.0.12.19"
COMMAND = [sys.executable, "-m", "firsthand", "simulate", "hl2ss", "--host", HOST]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("stall:pv:at=5:for=2.5", SimulatedFault("stall", "pv", 5.0, 2.5)),
        ("restart", SimulatedFault("restart")),
        ("clock_step:at=3:ms=-400", SimulatedFault("clock_step", "", 3.0, 0.0, {"ms": -400})),
        (
            "corrupt:pv:part=length:value=7:at=1",
            SimulatedFault("corrupt", "pv", 1.0, 0.0, {"part": "length", "value": 7}),
        ),
        ("refuse:eet:keep=true", SimulatedFault("refuse", "eet", 0.0, 0.0, {"keep": True})),
    ],
)
def test_a_fault_is_read_from_words(text: str, fault: SimulatedFault) -> None:
    assert parse_fault(text) == fault


@pytest.mark.unit
@pytest.mark.parametrize(
    "text", ["", ":pv", "stall:pv:at", "stall:pv:at=soon", "stall:pv:for=-1", "stall:pv:at=true"]
)
def test_a_fault_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_fault(text)


@pytest.mark.unit
def test_settings_are_read_as_what_they_look_like() -> None:
    assert parse_setting("research-mode=false") == ("research_mode", False)
    assert parse_setting("seed=3") == ("seed", 3)
    assert parse_setting("source=scene:replication") == ("source", "scene:replication")
    with pytest.raises(SettingsError):
        parse_setting("seed")


@pytest.mark.process
def test_a_ledger_that_cannot_be_written_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [*COMMAND, "--ledger", str(tmp_path / "file" / "ledger.jsonl"), "--seconds", "1"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "The ledger could not be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("request_to_end", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_listens_serves_and_ends_when_asked(
    tmp_path: Path, request_to_end: signal.Signals
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    with subprocess.Popen(
        [*COMMAND, "--set", "voice=false", "--ledger", str(ledger)],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert comes_to_listen(HOST, 3812, 20)
            with RawPeer(HOST, 3812) as client:
                assert int(client.unpack("<QI")[1]) == 1936
            child.send_signal(request_to_end)
            told, _ = child.communicate(timeout=10)
        finally:
            child.kill()
    assert child.returncode == 0
    assert f"listens on {HOST}" in told
    assert "has ended" in told
    assert '"stream":"si"' in ledger.read_text()


@pytest.mark.process
def test_it_ends_by_itself_after_the_time_that_was_given() -> None:
    started = time.monotonic()
    done = subprocess.run(
        [*COMMAND, "--set", "voice=false", "--seconds", "0.5"], capture_output=True, timeout=20
    )
    assert done.returncode == 0
    assert time.monotonic() - started >= 0.5


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fault", "stal:pv"], "Did you mean 'stall'"),
        (["--set", "sed=3"], "Did you mean 'seed'"),
        (["--source", "scene:nothing"], "scene:demonstration"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(arguments: list[str], words: str) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert words in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
