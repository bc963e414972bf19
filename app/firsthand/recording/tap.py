"""A live tap: packets of a running recording, in another process, by a rule of loss.

The recorder stores first and shows then. Whoever takes too slowly loses by its own rule (``NEWEST``
for a preview, ``last(seconds)`` for an assistant, ``EVERYTHING`` up to a limit of memory), and
``lost`` says how much.
"""

import contextlib
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final, Self

from firsthand.api import Packet, PacketFlags, RecordingError, StreamSchema
from firsthand.children.channel import Channel, ChannelClosed, ChannelError, Message, connect
from firsthand.recording.rendezvous import find, note_path
from firsthand.streams.fanout import NEWEST, LossRule

_CONNECT_S: Final = 5.0
LIMIT_BYTES: Final = 32 * 1024 * 1024
"""Memory in the recorder for one tap."""


class Tap:
    """Packets as they come; one thread takes, any may close."""

    def __init__(self, channel: Channel, schemas: dict[str, StreamSchema]) -> None:
        self.schemas: Final = schemas
        self.lost = 0
        """Packets that this taker was too slow for."""
        self.ended = False
        """Whether no more will come."""
        self._channel = channel

    def get(self, timeout_s: float | None = None) -> Packet | None:
        """The next packet; None when none came within ``timeout_s`` or the tap has ended."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self.ended:
            left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                message = self._channel.receive(left_s)
            except ChannelError:
                self.ended = True
                break
            if message is None:
                return None
            self.lost = int(message.header.get("lost", self.lost))
            self.ended |= bool(message.header.get("end"))
            if "stream" in message.header:
                return _packet(message)
        return None

    def __iter__(self) -> Iterator[Packet]:
        """Packets until the recording ends."""
        while True:
            packet = self.get()
            if packet is None:
                return
            yield packet

    def close(self) -> None:
        """Take no more. May be called twice; wakes a thread that waits."""
        self.ended = True
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_tap(
    folder: Path,
    streams: Collection[str] | None = None,
    rule: LossRule = NEWEST,
    *,
    limit_bytes: int = LIMIT_BYTES,
) -> Tap:
    """Tap ``streams`` (None: all) of the recording that is being made in ``folder``.

    Raises ``RecordingError`` where nothing records there or a stream does not exist.
    """
    found = find(note_path(folder))
    if found is None:
        raise RecordingError(f"Nothing is recording into {folder}, so there is nothing to watch.")
    names = None if streams is None else list(streams)
    asked = {
        "ask": "tap",
        "streams": names,
        "rule": str(rule),
        "limit_bytes": limit_bytes,
    }
    try:
        channel = connect(found.address, found.key, _CONNECT_S)
        with contextlib.ExitStack() as stack:
            stack.callback(channel.close)
            channel.send(asked)
            answer = channel.receive(_CONNECT_S)
            schemas = _schemas(answer)
            stack.pop_all()
    except ChannelClosed as error:
        raise RecordingError("The recorder ended before it could be watched.") from error
    except ChannelError as error:
        raise RecordingError(
            "The recorder does not answer, so it cannot be watched.",
            try_this="It may still be recording. Wait a moment and try again.",
        ) from error
    return Tap(channel, schemas)


def _schemas(answer: Message | None) -> dict[str, StreamSchema]:
    if answer is None:
        raise ChannelError("The recorder did not answer in time.")
    if "wrong" in answer.header:
        raise RecordingError(str(answer.header["wrong"]))
    found = [StreamSchema.from_json(each) for each in answer.header["schemas"]]
    return {schema.name: schema for schema in found}


def _packet(message: Message) -> Packet:
    about: dict[str, Any] = message.header
    fields, payload = message.blobs
    return Packet(
        about["stream"],
        about["seq"],
        about["device_ns"],
        about["arrival_ns"],
        fields,
        payload,
        PacketFlags(about["flags"]),
    )
