"""The headset's clocks are stepped, drift or begin anew: the reader's times stay true.

Truth is the simulator's: each slot of a sensor's grid has an exact moment by the headset's QPC,
whatever the eye tracker's stamp says, and the simulator knows which host time that was.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import firsthand
from firsthand.api import Clock, SimulatedFault
from firsthand.testing.waiting import wait_until
from firsthand_hl2ss.simulator import Hl2ssSimulator
from firsthand_hl2ss.simulator.ledger import Ledger, SentRow

pytestmark = pytest.mark.process

Floats = npt.NDArray[np.float64]
STREAMS: Final[Mapping[str, Any]] = {
    "pv": {"width": 424, "height": 240, "fps": 15, "gop": 5},
    "eet": {"fps": 90},
    "si": None,
    "mic": None,
}
PERIODS_HNS: Final = {"pv": Fraction(10_000_000, 15), "eet": Fraction(10_000_000, 90)}
ALLOWED_S: Final = 0.005
READING_NS: Final = 30_000
"""The app reads its two clocks one after the other when it starts, and knows no better."""


def step(ms: float) -> SimulatedFault:
    return SimulatedFault("clock_step", about={"ms": ms})


def pause(seconds: float) -> None:
    """Let the recording go on."""
    threading.Event().wait(seconds)


@dataclass(frozen=True)
class TrueTime:
    """Host time of a moment of QPC, in one boot of the headset."""

    qpc_hns: int
    host_ns: int
    ppm: float

    @classmethod
    def now(cls, headset: Hl2ssSimulator) -> "TrueTime":
        qpc = headset.clock.qpc_hns()
        return cls(qpc, headset.clock.host_ns_at(qpc), headset.config.drift_ppm)

    def host_ns_at(self, qpc_hns: float) -> float:
        return self.host_ns + (qpc_hns - self.qpc_hns) * 100 / (1 + self.ppm * 1e-6)


def rows_of(stored_ns: npt.NDArray[np.int64], sent: list[SentRow]) -> list[SentRow]:
    """What was sent for each packet that is stored, in order: stamps may repeat after a step."""
    ahead = iter(sent)
    return [
        next(row for row in ahead if row.timestamp_hns * 100 == device_ns)
        for device_ns in stored_ns.tolist()
    ]


def errors_s(
    folder: Path, ledger: Ledger, stream: str, truth: Mapping[int, TrueTime]
) -> tuple[Floats, Floats]:
    """True times of every stored packet of a stream in the session, and how far the reader is off.

    A slot's QPC is counted from the first slot of its boot, at which no clock had been stepped.
    With 100 ppm of drift a reader who took that for granted would be off by more than it may.
    """
    sent = ledger.sent(stream)
    first: dict[int, SentRow] = {}
    for row in sent:
        first.setdefault(row.boot, row)
    with firsthand.open(folder, trusted=True) as recording:
        told = recording.times_s(stream)
        start_ns = recording.timeline.start_host_ns
        rows = rows_of(recording.streams[stream].device_ns, sent)
        host_ns = np.rint(told * 1e9).astype(np.int64) + start_ns
        doubt_ns = recording.timeline.table.uncertainty_ns(recording.schemas[stream].clock, host_ns)
    true = []
    for row in rows:
        begin = first[row.boot]
        qpc = begin.timestamp_hns + (row.slot - begin.slot) * PERIODS_HNS[stream]
        true.append((truth[row.boot].host_ns_at(float(qpc)) - start_ns) / 1e9)
    off = told - np.array(true)
    assert (np.abs(off) * 1e9 <= doubt_ns + READING_NS).all(), "more than the reader owns up to"
    return np.array(true), off


def assert_in_step(folder: Path, ledger: Ledger, truth: Mapping[int, TrueTime]) -> None:
    """Gaze against video, and each against the truth, at every packet of the recording."""
    pv_at, pv = errors_s(folder, ledger, "pv", truth)
    eet_at, eet = errors_s(folder, ledger, "eet", truth)
    assert len(pv) > 15
    assert len(eet) > 90
    against_video = eet - np.interp(eet_at, pv_at, pv)
    for what, off in (("video", pv), ("gaze", eet), ("gaze against video", against_video)):
        worst = float(np.abs(off).max())
        assert worst <= ALLOWED_S, f"{what} is off by {worst * 1e3:.1f} ms"


def is_back(headset: Hl2ssSimulator) -> bool:
    """Whether both streams deliver again after a restart."""
    back = [e.host_ns for e in headset.ledger.events if e.kind.endswith(" done")]
    return bool(back) and all(
        headset.ledger.sent(stream)[-1].host_ns > back[0] + 500_000_000 for stream in PERIODS_HNS
    )


def straight(headset: Hl2ssSimulator) -> None:
    pause(1.0)
    headset.fault(step(400))


def twice(headset: Hl2ssSimulator) -> None:
    pause(0.6)
    headset.fault(step(400))
    pause(1.2)
    headset.fault(step(-250))


def in_a_stall(headset: Hl2ssSimulator) -> None:
    pause(0.6)
    headset.fault(SimulatedFault("stall", "", for_s=1.4))
    pause(0.6)
    headset.fault(step(400))


def in_bursts(headset: Hl2ssSimulator) -> None:
    """A link that delivers late by chance, and that carries nothing for a while now and then."""
    headset.fault(SimulatedFault("jitter", "", about={"ms": 30}))
    pause(0.5)
    headset.fault(SimulatedFault("stall", "", for_s=0.5))
    pause(0.8)
    headset.fault(step(400))
    pause(0.4)
    headset.fault(SimulatedFault("stall", "", for_s=0.5))
    pause(2.5)  # comparing clocks takes many ways there and back: over such a link, seconds


CASES: Final[Mapping[str, Callable[[Hl2ssSimulator], None]]] = {
    "+400 ms": straight,
    "+400 ms, then -250 ms": twice,
    "+400 ms while the link carries nothing": in_a_stall,
    "+400 ms on a link that jitters and delivers in bursts": in_bursts,
}


@pytest.mark.parametrize("what", CASES)
def test_gaze_stays_in_step_with_video_when_the_wall_clock_is_set(
    what: str, record_headset: Callable[..., Any]
) -> None:
    truth: dict[int, TrueTime] = {}

    def during(headset: Hl2ssSimulator) -> None:
        truth[0] = TrueTime.now(headset)
        CASES[what](headset)

    recorded = record_headset(
        seconds=1.8, streams=STREAMS, simulator={"drift_ppm": 100.0}, during=during
    )
    assert_in_step(recorded.folder, recorded.ledger, truth)
    with firsthand.open(recorded.folder, trusted=True) as recording:
        steps = [epoch for epoch in recording.epochs if epoch.clock is Clock.DEVICE_WALL]
        assert len(steps) == what.count("ms")
        assert all("set by" in epoch.reason for epoch in steps)
        assert not [epoch for epoch in recording.epochs if epoch.clock is Clock.DEVICE]


@pytest.mark.parametrize("kind", ["restart", "reboot"])
def test_times_stay_true_when_app_or_headset_begin_anew(
    kind: str, record_headset: Callable[..., Any]
) -> None:
    truth: dict[int, TrueTime] = {}

    def during(headset: Hl2ssSimulator) -> None:
        truth[0] = TrueTime.now(headset)
        headset.fault(step(400))
        pause(1.5)
        headset.fault(SimulatedFault(kind, for_s=1.0))
        wait_until(lambda: is_back(headset), "gaze after the restart", within_s=20.0)
        truth[1] = TrueTime.now(headset)

    recorded = record_headset(
        seconds=1.5, streams=STREAMS, simulator={"drift_ppm": 100.0}, during=during
    )
    ledger = recorded.ledger
    assert {row.boot for row in ledger.sent("eet")} == ({0, 1} if kind == "reboot" else {0})
    assert_in_step(recorded.folder, ledger, truth)
    with firsthand.open(recorded.folder, trusted=True) as recording:
        for stream in ("pv", "eet"):
            times = recording.times_s(stream)
            assert (np.diff(times) > 0).all()
            assert 0 <= times[0] < times[-1] <= recording.duration_s
        reasons = [epoch.reason for epoch in recording.epochs]
        assert any("set by +400 ms" in reason for reason in reasons)
        assert any("started again" in reason for reason in reasons)
        device = [epoch for epoch in recording.epochs if epoch.clock is Clock.DEVICE]
        assert len(device) == (1 if kind == "reboot" else 0)
