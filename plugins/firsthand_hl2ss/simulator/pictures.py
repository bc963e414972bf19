"""Where the front camera's pictures come from: made as they are asked for, or encoded ahead."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from firsthand_hl2ss.simulator.pump import Beat
from firsthand_hl2ss.simulator.source import U1

if TYPE_CHECKING:
    from firsthand_hl2ss.simulator.encode_ahead import PreEncoded

Draw = Callable[[float, int], U1]
"""From the source's time and a picture's number to the picture as NV12."""
Encode = Callable[[U1], bytes]

NO_KEY: Final = "not sent: no key frame yet"


class Pictures(ABC):
    """The pictures of one connection, in the order of its slots."""

    def moment_s(self, beat: Beat) -> float:
        """The source's time of the picture that is shown in a slot."""
        return beat.scene_s

    def may_be_empty(self, _beat: Beat) -> bool:
        """Whether the slot's picture may be left out without harm to those after it."""
        return True

    @abstractmethod
    def take(self, beat: Beat) -> bytes | None:
        """The access unit of a slot; None where a client could not decode it."""

    @abstractmethod
    def close(self) -> None:
        """Give threads back. What is encoded ahead is not this one's to close."""


class LivePictures(Pictures):
    """Each is drawn while the one before is being encoded: what is seen is a function of time,
    and both together take longer than a frame may."""

    def __init__(self, draw: Draw, encode: Encode, divisor: int) -> None:
        """Numbered by the camera's own frames, of which ``divisor`` leaves some out."""
        self._draw = draw
        self._encode = encode
        self._divisor = divisor
        self._drawer = ThreadPoolExecutor(1, thread_name_prefix="hl2ss-sim drawing")
        self._drawing: tuple[int, Future[U1]] | None = None

    def take(self, beat: Beat) -> bytes:
        ahead, self._drawing = self._drawing, None
        if ahead is None or ahead[0] != beat.slot:
            ahead = beat.slot, self._begin(beat.slot, beat.scene_s)
        nv12 = ahead[1].result()
        self._drawing = beat.slot + 1, self._begin(beat.slot + 1, beat.next_scene_s)
        return self._encode(nv12)

    def _begin(self, slot: int, scene_s: float) -> "Future[U1]":
        return self._drawer.submit(self._draw, scene_s, slot * self._divisor)

    def close(self) -> None:
        self._drawer.shutdown(cancel_futures=True)


class ShownAgain(Pictures):
    """From a stretch that was encoded ahead. A client begins at a key frame, and again after
    slots that could not be sent; only the last picture of a group is ever left out."""

    def __init__(self, stretch: "PreEncoded") -> None:
        self._stretch = stretch
        self._next = -1

    def _number(self, beat: Beat) -> int:
        # By time and not by slot, since slots begin anew when the headset is started again.
        return self._stretch.number(round(beat.scene_s * self._stretch.fps))

    def moment_s(self, beat: Beat) -> float:
        return self._stretch.scene_s(self._number(beat))

    def may_be_empty(self, _beat: Beat) -> bool:
        return self._stretch.is_key(self._number(_beat) + 1)

    def take(self, beat: Beat) -> bytes | None:
        number = self._number(beat)
        if number != self._next and not self._stretch.is_key(number):
            return None
        self._next = self._stretch.number(number + 1)
        return self._stretch.unit(number)

    def close(self) -> None:
        """Nothing is this one's own."""
