"""A path to the headset that swallows everything for a while and tells nobody: no FIN, no reset.

Two network namespaces stand for headset and computer, a third between them for the Wi-Fi; the path
is cut by telling it not to forward.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

pytestmark = pytest.mark.process

STREAMS = ("pv", "eet", "si", "mic")
HERE = Path(__file__).parent
HEADSET, COMPUTER = "10.77.1.2", "10.77.2.2"
OUTAGES_S = (0.5, 2.0, 6.0)
SOAK_OUTAGES_S = (14.0,)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10)


def why_not() -> str:
    """Why namespaces cannot be had here; empty where they can."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        return "network namespaces need Linux and the command ip"
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = f"firsthand-try-{os.getpid()}"
    try:
        ip("netns", "add", probe)
        ip("netns", "exec", probe, "ip", "link", "set", "lo", "up")
    except subprocess.CalledProcessError as error:
        words = error.stderr.decode(errors="replace").strip()
        return f"this system gives no network namespaces: {words}"
    finally:
        subprocess.run(["ip", "netns", "delete", probe], capture_output=True, check=False)
    return ""


@dataclass(frozen=True)
class Road:
    """Three namespaces in a row."""

    headset: str
    wifi: str
    computer: str

    def forward(self, on: bool) -> int:
        """Let packets through or swallow them; when that was done, host clock."""
        switch = f"echo {on:d} > /proc/sys/net/ipv4/ip_forward"
        command = ["ip", "netns", "exec", self.wifi, "sh", "-c", switch]
        subprocess.run(command, check=True, timeout=10)
        return time.perf_counter_ns()


@pytest.fixture
def road() -> Iterator[Road]:
    reason = why_not()
    if reason:
        pytest.skip(reason)
    tag = f"fh{os.getpid()}"
    made = Road(f"{tag}-h", f"{tag}-w", f"{tag}-c")
    try:
        for name in (made.headset, made.wifi, made.computer):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for end, net, address in ((made.headset, 1, HEADSET), (made.computer, 2, COMPUTER)):
            ip(
                "-n",
                made.wifi,
                "link",
                "add",
                f"w{net}",
                "type",
                "veth",
                "peer",
                "e0",
                "netns",
                end,
            )
            ip("-n", made.wifi, "address", "add", f"10.77.{net}.1/24", "dev", f"w{net}")
            ip("-n", made.wifi, "link", "set", f"w{net}", "up")
            ip("-n", end, "address", "add", f"{address}/24", "dev", "e0")
            ip("-n", end, "link", "set", "e0", "up")
            ip("-n", end, "route", "add", "default", "via", f"10.77.{net}.1")
        made.forward(True)
        yield made
    finally:
        for name in (made.headset, made.wifi, made.computer):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "delete", name)


class Script:
    """A script in a namespace that says when it is ready, and what it saw once told to end."""

    def __init__(self, namespace: str, script: str) -> None:
        self._child = subprocess.Popen(
            ["ip", "netns", "exec", namespace, sys.executable, str(HERE / script), HEADSET],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "ready\n"
        return self

    def told(self) -> Any:
        out, _ = self._child.communicate(timeout=30)
        return json.loads(out)

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.communicate()


def slots_between(account: dict[str, Any], first_ns: int, last_ns: int) -> int:
    """Times at which the headset had something, between two of its packets, both included."""
    first, last = first_ns // 100, last_ns // 100
    sent = sum(first <= hns <= last for hns in account["sent"])
    unsent = sum(count for hns, count in account["unsent"] if first <= hns <= last)
    return int(sent) + int(unsent)


def outages() -> tuple[float, ...]:
    return OUTAGES_S + (SOAK_OUTAGES_S if os.environ.get("FIRSTHAND_SOAK") else ())


@pytest.mark.soak
@pytest.mark.parametrize("outage_s", outages())
def test_a_lost_link_is_noticed_and_the_streams_are_back_soon(road: Road, outage_s: float) -> None:
    with (
        Script(road.headset, "link_loss_headset.py") as headset,
        Script(road.computer, "link_loss_recorder.py") as recorder,
    ):
        cut_ns = road.forward(False)
        time.sleep(outage_s)
        back_ns = road.forward(True)
        time.sleep(2.5)
        seen, truth = recorder.told(), headset.told()

    assert seen["epochs"] == []
    for stream in STREAMS:
        packets = seen["packets"][stream]
        after_s = [(arrival - back_ns) / 1e9 for _, arrival in packets if arrival > back_ns]
        assert after_s, f"{stream} did not come back"
        assert min(after_s) < 2.0, f"{stream} came back after {min(after_s):.2f} s"
        assert max(after_s) > 2.0, f"{stream} went away again"
        assert truth[stream]["holes"] == []
        first_ns, last_ns = packets[0][0], packets[-1][0]
        slots = slots_between(truth[stream], first_ns, last_ns)
        rows = [row for row in seen["gaps"][stream] if first_ns <= row[0] < last_ns]
        lost = sum(row[3] for row in rows)
        long = [row[2] for row in rows if row[1] - row[0] > 1e9]
        assert set(long) <= {"connection_lost"}, f"{stream}: {long}"
        assert len(packets) + lost == slots, f"{stream}: {len(packets)} + {lost} of {slots}"
        if outage_s >= 2:
            noticed_s = [
                (when - cut_ns) / 1e9
                for when, name, state in seen["told"]
                if name == stream and when > cut_ns and state in ("stalled", "lost")
            ]
            assert noticed_s, f"{stream}: the loss was not noticed"
            assert min(noticed_s) < 1.0, f"{stream}: noticed after {min(noticed_s):.2f} s"
        else:
            assert lost == 0, f"{stream} lost {lost} packets that TCP still had"
