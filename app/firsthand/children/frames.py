"""One message as bytes: sizes, a JSON header, attachments; every length is checked before use."""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from firsthand.api import FirsthandError

MAX_BLOBS: Final = 4096
_SIZES = struct.Struct("<II")
_SIZE = struct.Struct("<I")


class ChannelError(FirsthandError):
    """A message that cannot be sent or was not understood; the latter closes the channel."""


class ChannelClosed(ChannelError):  # noqa: N818  (an end, not always an error)
    """The other side is gone, or this side has closed the channel."""


class MessageTooLarge(ChannelError):  # noqa: N818  (read as a fact, like the two above)
    """The other side sent more in one message than is taken; the channel is closed."""


@dataclass(frozen=True, slots=True)
class Message:
    """What arrived: a JSON object, and the bytes that came with it."""

    header: dict[str, Any]
    blobs: list[bytes] = field(default_factory=list)


def pack(message: Mapping[str, Any], *blobs: bytes | memoryview) -> bytes:
    """One message as bytes. Raises ``ChannelError`` where ``message`` is not JSON."""
    try:
        header = json.dumps(dict(message), allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ChannelError(f"A message between processes is not plain JSON: {error}.") from error
    if len(blobs) > MAX_BLOBS:
        raise ChannelError(f"A message carries {len(blobs)} attachments; {MAX_BLOBS} is the most.")
    views = [memoryview(blob).cast("B") for blob in blobs]
    return b"".join(
        (
            _SIZES.pack(len(header), len(views)),
            *(_SIZE.pack(view.nbytes) for view in views),
            header,
            *views,
        )
    )


def unpack(frame: bytes) -> Message:
    """The message in ``frame``. Raises ``ChannelError`` on anything that ``pack`` did not write."""
    if len(frame) < _SIZES.size:
        raise ChannelError("A message from another process is too short.")
    header_size, count = _SIZES.unpack_from(frame)
    start = _SIZES.size + count * _SIZE.size
    if count > MAX_BLOBS or start > len(frame):
        raise ChannelError("A message from another process has an impossible number of parts.")
    sizes = [size for (size,) in _SIZE.iter_unpack(frame[_SIZES.size : start])]
    if start + header_size + sum(sizes) != len(frame):
        raise ChannelError("A message from another process has parts of impossible lengths.")
    at = start + header_size
    try:
        header = json.loads(frame[start:at])
    except (ValueError, RecursionError) as error:
        raise ChannelError("A message from another process is not JSON.") from error
    if not isinstance(header, dict):
        raise ChannelError("A message from another process is not a JSON object.")
    blobs: list[bytes] = []
    for size in sizes:
        blobs.append(frame[at : at + size])
        at += size
    return Message(header, blobs)
