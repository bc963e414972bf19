"""The recorder's end of a live tap: packets that were stored go out, by the taker's own rule.

Each tap has a connection, a subscription and a thread of its own. A taker that is slow, frozen or
killed loses what its rule lets it lose and delays nobody.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from firsthand.api import SettingsError
from firsthand.children.channel import Channel
from firsthand.recording.recorder import Recorder
from firsthand.streams.fanout import LossRule

_LOOK_S: Final = 0.5

_log = logging.getLogger(__name__)


def serve_tap(channel: Channel, asked: Mapping[str, Any], recorder: Recorder) -> None:
    """Send until the recording ends or the taker goes. Raises ``ChannelError`` when it goes."""
    try:
        rule = LossRule.parse(str(asked["rule"]))
        streams = _streams(asked.get("streams"), recorder)
        limit_bytes = int(asked["limit_bytes"])
    except (KeyError, TypeError, ValueError, SettingsError) as error:
        channel.send({"wrong": f"The tap was refused: {error}"})
        return
    schemas = [recorder.schemas[name].to_json() for name in streams]
    channel.send({"schemas": schemas})
    subscription = recorder.fanout.subscribe(rule, streams, limit_bytes=limit_bytes)
    try:
        while not channel.closed:
            packet = subscription.get(_LOOK_S)
            if packet is not None:
                about = {
                    "stream": packet.stream,
                    "seq": packet.seq,
                    "device_ns": packet.device_ns,
                    "arrival_ns": packet.arrival_ns,
                    "flags": int(packet.flags),
                    "lost": subscription.lost,
                }
                channel.send(about, packet.fields, packet.payload)
            elif subscription.closed:
                channel.send({"end": True, "lost": subscription.lost})
                return
            else:
                channel.send({"lost": subscription.lost})  # finds out whether anybody is there
    finally:
        subscription.close()


def _streams(asked: object, recorder: Recorder) -> list[str]:
    if asked is None:
        return list(recorder.schemas)
    if not isinstance(asked, list):
        raise TypeError("streams must be a list of names")
    unknown = [str(name) for name in asked if name not in recorder.schemas]
    if unknown:
        raise ValueError(
            f"there is no stream {', '.join(unknown)}; there are {', '.join(recorder.schemas)}."
        )
    return [str(name) for name in asked]
