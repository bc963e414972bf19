"""One client of the simulated headset: bytes in, packets out, and what may befall them on the way.

Sending blocks like the headset's: nothing is buffered here, no time-out applies, and a client that
has gone is noticed only when a send fails. Waits are cut into short pieces so that the simulator
can be stopped and faults can strike at any moment.
"""

import random
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from firsthand_hl2ss.simulator.faults import DEADLY, FaultBoard, Planned
from firsthand_hl2ss.wire import HEADER

_PIECE_S: Final = 0.1
_HURTING: Final = frozenset({"truncate", "corrupt"})
_THROTTLED_PIECE_S: Final = 0.02
_SLOW_SEND_NS: Final = 50_000_000
"""A send that takes longer than this was held up by the link and not by us."""


class ConnectionEnded(Exception):  # noqa: N818 – an ordinary end, not an error
    """The connection is over; ``reason`` goes into the account of what was not sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Outcome:
    """What went out: checksum of the payload as sent, whether all of it, which part was hurt."""

    crc32: int
    complete: bool
    damage: str = ""
    ended: str = ""
    """Why the connection is over after this packet, or ""."""


class Connection:
    """A client that is being served. Used by its port's thread; ``end`` by any."""

    def __init__(
        self, sock: socket.socket, stream: str, number: int, board: FaultBoard, seed: int
    ) -> None:
        self.stream = stream
        self.number = number
        self.board = board
        self.blocked_ns = 0
        """When a send was last held up by the link."""
        self._socket = sock
        self._chance = random.Random(f"{seed} {stream} {number}")  # noqa: S311 – a simulation
        self._woken = threading.Event()
        self._link_free_ns = 0
        self._ending = ""
        self._hard = False
        sock.settimeout(_PIECE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def end(self, reason: str, *, hard: bool = False) -> None:
        """Let the serving thread close (or, ``hard``, reset) the connection now."""
        self._hard = self._hard or hard
        self._ending = self._ending or reason
        self._woken.set()

    def close(self) -> None:
        """Give the socket back; a hard end reaches the client as a reset."""
        if self._hard:
            on_for_zero_s = struct.pack("hh" if _is_windows() else "ii", 1, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, on_for_zero_s)
        self._socket.close()

    def check(self) -> None:
        """Raise ``ConnectionEnded`` if somebody has ended the connection."""
        if self._ending:
            raise ConnectionEnded(self._ending)

    def receive(self, count: int) -> bytes:
        """Exactly ``count`` bytes, however long they take: a silent client blocks for ever."""
        data = bytearray()
        while len(data) < count:
            self.check()
            try:
                piece = self._socket.recv(min(count - len(data), 1 << 16))
            except TimeoutError:
                continue
            except OSError as error:
                raise ConnectionEnded("client gone") from error
            if not piece:
                raise ConnectionEnded("client gone")
            data += piece
        return bytes(data)

    def wait_until(self, host_ns: int) -> None:
        """Wait for a moment of ``perf_counter_ns``. Raises ``ConnectionEnded``."""
        while True:
            self.check()
            left_s = (host_ns - time.perf_counter_ns()) / 1e9
            if left_s <= 0:
                return
            self._woken.wait(min(left_s, 3600.0))

    def pause(self) -> str:
        """Wait while a fault keeps everything still; tells which one did, or ""."""
        if not self.board.any_for(self.stream):
            return ""
        held = ""
        while True:
            now = time.perf_counter_ns()
            self._strike(now)
            if (dead := self.board.holding(self.stream, "half_open", now)) is not None:
                self._lie_dead(dead)
            if self.board.holding(self.stream, "stall", now) is None:
                return held
            held = "stall"
            self.wait_until(now + int(_PIECE_S * 1e9))

    def _strike(self, now_ns: int) -> None:
        if (blow := self.board.due(self.stream, DEADLY, now_ns)) is not None:
            self.end(blow.kind, hard=blow.kind == "reset")
            self.check()

    def _lie_dead(self, fault: Planned) -> None:
        """Neither send nor receive until the fault is over or the client's reset arrives.

        Like a server that hangs in its send: an orderly close of the client is not noticed.
        """
        while fault.holds(now := time.perf_counter_ns()):
            if _was_reset(self._socket):
                raise ConnectionEnded("half_open")
            self.wait_until(now + int(_PIECE_S * 1e9))
        self.end("half_open", hard=True)
        self.check()

    def packet_fault(self, kinds: frozenset[str]) -> bool:
        """Whether a fault of these kinds befalls the packet that is made now."""
        if not self.board.any_for(self.stream):
            return False
        return self.board.due(self.stream, kinds, time.perf_counter_ns()) is not None

    def reply(self, data: bytes) -> None:
        """Send bytes that are not a stream packet. Raises ``ConnectionEnded``."""
        self.pause()
        now = time.perf_counter_ns()
        self.delay(now)
        if self.board.any_for(self.stream):
            hurt = self.board.due(self.stream, _HURTING, now)
            if hurt is not None and hurt.kind == "truncate":
                self._push([memoryview(data)[: len(data) // 2]])
                self.end("truncate")
                self.check()
            if hurt is not None:
                data = bytes(self._flipped(bytearray(data), hurt))
        self._push([memoryview(data)])

    def send_packet(
        self,
        timestamp_hns: int,
        payload: Sequence[bytes | memoryview],
        pose: bytes,
        metadata_bytes: int,
        crc32: int,
    ) -> Outcome:
        """Send header, payload and pose; ``crc32`` is the payload's.

        A connection that ends within or after the packet is told in the outcome and not raised, so
        that the packet is accounted for first.
        """
        length = sum(map(len, payload))
        packet = [memoryview(HEADER.pack(timestamp_hns, length)), *(memoryview(p) for p in payload)]
        if pose:
            packet.append(memoryview(pose))
        damage, cut_at = "", -1
        if self.board.any_for(self.stream):
            now = time.perf_counter_ns()
            hurt = self.board.due(self.stream, _HURTING, now)
            if hurt is not None:
                whole = bytearray(b"".join(packet))
                if hurt.kind == "truncate":
                    keep = float(hurt.about.get("keep", 0.5))
                    cut_at = min(len(whole) - 1, max(1, int(len(whole) * keep)))
                else:
                    damage = str(hurt.about.get("part", "payload"))
                    self._corrupt(whole, length, metadata_bytes, hurt)
                    crc32 = zlib.crc32(memoryview(whole)[HEADER.size : HEADER.size + length])
                packet = [memoryview(whole)[: cut_at if cut_at >= 0 else None]]
        try:
            self._push(packet)
        except ConnectionEnded as end:
            return Outcome(crc32, complete=False, damage=damage, ended=end.reason)
        if cut_at >= 0:
            self.end("truncate")
            return Outcome(crc32, complete=False, ended="truncate")
        return Outcome(crc32, complete=True, damage=damage)

    def _corrupt(self, whole: bytearray, length: int, metadata: int, hurt: Planned) -> None:
        part = hurt.about.get("part", "payload")
        end = HEADER.size + length
        spans = {
            "timestamp": (0, 8),
            "length": (8, 12),
            "payload": (HEADER.size, max(HEADER.size, end - metadata)),
            "metadata": (end - metadata, end),
            "pose": (end, len(whole)),
        }
        start, stop = spans[part]
        if start == stop:
            start, stop = HEADER.size, end
        if "value" in hurt.about and part in {"length", "timestamp"}:
            value = int(hurt.about["value"]) % (1 << 8 * (stop - start))
            whole[start:stop] = value.to_bytes(stop - start, "little")
        else:
            whole[start:stop] = self._flipped(whole[start:stop], hurt)

    def _flipped(self, data: bytearray, hurt: Planned) -> bytearray:
        bits = min(int(hurt.about.get("bits", 1)), 8 * len(data))
        for bit in self._chance.sample(range(8 * len(data)), bits):
            data[bit // 8] ^= 1 << bit % 8
        return data

    def delay(self, due_ns: int) -> None:
        """Wait as long as a jittery link would keep what was due at a moment. Order is kept."""
        if not self.board.any_for(self.stream):
            return
        jitter = self.board.holding(self.stream, "jitter", time.perf_counter_ns())
        if jitter is not None:
            most_ns = float(jitter.about.get("ms", 50.0)) * 1e6
            self.wait_until(due_ns + int(self._chance.uniform(0, most_ns)))

    def _push(self, parts: list[memoryview]) -> None:
        """Give everything to the system, however long that takes. Raises ``ConnectionEnded``."""
        if not self.board.any_for(self.stream):
            self._push_plainly(parts)
            return
        whole = memoryview(b"".join(parts))
        while whole:
            now = time.perf_counter_ns()
            self._strike(now)
            piece = len(whole)
            throttle = self.board.holding(self.stream, "throttle", now)
            slices = self.board.holding(self.stream, "slices", now)
            if slices is not None:
                piece = int(slices.about.get("bytes", 1))
            rate = int(throttle.about.get("bytes_per_s", 100_000)) if throttle is not None else 0
            if rate:
                piece = min(piece, max(1, int(rate * _THROTTLED_PIECE_S)))
            piece = min(piece, len(whole))
            if rate:
                # Waited before and not after: what has left in full must not be told as cut.
                self.wait_until(self._link_free_ns)
                self.blocked_ns = time.perf_counter_ns()
                self._link_free_ns = self.blocked_ns + piece * 1_000_000_000 // rate
            self._push_plainly([whole[:piece]])
            whole = whole[piece:]

    def _push_plainly(self, parts: list[memoryview]) -> None:
        started = time.perf_counter_ns()
        while parts:
            self.check()
            try:
                sent = _gathered_send(self._socket, parts)
            except TimeoutError:
                self._strike(time.perf_counter_ns())
                continue
            except OSError as error:
                raise ConnectionEnded("client gone") from error
            while parts and sent >= len(parts[0]):
                sent -= len(parts.pop(0))
            if sent:
                parts[0] = parts[0][sent:]
        now = time.perf_counter_ns()
        if now - started > _SLOW_SEND_NS:
            self.blocked_ns = now


def _send_first(sock: socket.socket, parts: list[memoryview]) -> int:
    return sock.send(parts[0])


_gathered_send: Callable[[socket.socket, list[memoryview]], int] = getattr(
    socket.socket, "sendmsg", _send_first
)
"""One call for header, payload and pose, as on the headset; Python has none on Windows."""


def _is_windows() -> bool:
    return not hasattr(socket.socket, "sendmsg")


def _was_reset(sock: socket.socket) -> bool:
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        return True
    try:
        sock.settimeout(0.0)
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        sock.settimeout(_PIECE_S)
    return False
