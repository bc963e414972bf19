"""Remote configuration, port 3809: commands one after the other on one connection.

Setters give no answer; an unknown command, port, operation or source ends the connection.
"""

import struct
from typing import Any, Final

import numpy as np

from firsthand_hl2ss import wire_rc
from firsthand_hl2ss.simulator.calibration import LENSES
from firsthand_hl2ss.simulator.connection import Connection
from firsthand_hl2ss.simulator.headset import Headset
from firsthand_hl2ss.wire import STREAM_PORTS, WireError
from firsthand_hl2ss.wire_rc import Op, TimeSource

_LENS_PORTS: Final = {STREAM_PORTS[stream].on(): stream for stream in LENSES}
_MOST_ITEMS: Final = 1 << 20
_TO_PLANE, _TO_IMAGE = 0, 1


class RemoteConfiguration:
    """Serves port 3809. Ports in commands are those of a headset, whatever we listen on."""

    def __init__(self, headset: Headset) -> None:
        self._headset = headset

    def serve(self, connection: Connection) -> None:
        while True:
            op = wire_rc.read_op(connection.receive)
            if op in wire_rc.NEEDS_RESEARCH_MODE and not self._headset.config.research_mode:
                raise WireError(f"{op.name} needs Research Mode")
            arguments = wire_rc.read_arguments(op, connection.receive)
            reply = self._execute(op, arguments, connection)
            if reply is not None:
                connection.reply(reply)

    def _execute(self, op: Op, arguments: tuple[Any, ...], connection: Connection) -> bytes | None:
        headset = self._headset
        match op:
            case Op.VERSION:
                return wire_rc.pack_reply(op, *headset.config.app_version)
            case Op.UTC_OFFSET:
                return wire_rc.pack_reply(op, headset.clock.offset_hns)
            case Op.PV_IS_ON:
                return wire_rc.pack_reply(op, headset.camera.is_on)
            case Op.PRESENT_TIME:
                return self._present_time(arguments[0])
            case Op.RM_MAP_POINTS:
                port, operation, count = arguments
                return _mapped(port, operation, count, connection)
            case Op.RIG_POSES:
                return self._rig_poses(arguments[0], connection)
            case Op.SI_DELAY:
                headset.app.si_delay_hns = arguments[0]
            case Op.THREAD_PRIORITY | Op.VLC_WORKAROUND:
                # Nothing here depends on either; as on the headset, a bad port is ignored.
                return None
            case _ if op in wire_rc.NEEDS_CAMERA:
                headset.camera.set(op, arguments)
            case _:
                return None
        return None

    def _present_time(self, source: int) -> bytes:
        clock = self._headset.clock
        now = clock.qpc_hns()
        match source:
            case TimeSource.QPC:
                return wire_rc.pack_reply(Op.PRESENT_TIME, now)
            case TimeSource.UTC:
                return wire_rc.pack_reply(Op.PRESENT_TIME, clock.wall_hns(now))
        raise WireError(f"there is no clock {source}")

    def _rig_poses(self, count: int, connection: Connection) -> bytes:
        headset = self._headset
        times = struct.unpack(f"<{count}Q", _read_items(connection, count, 8))
        return b"".join(
            headset.pose("rc", headset.source.rig_pose(headset.clock.scene_s(hns))) for hns in times
        )


def _mapped(port: int, operation: int, count: int, connection: Connection) -> bytes:
    if port not in _LENS_PORTS or operation not in {_TO_PLANE, _TO_IMAGE}:
        raise WireError(f"port {port} cannot map points by operation {operation}")
    lens = LENSES[_LENS_PORTS[port]]
    data = _read_items(connection, count, 8)
    points = np.frombuffer(data, "<f4").reshape(-1, 2).astype(np.float64)
    mapped = lens.to_plane(points) if operation == _TO_PLANE else lens.to_image(points)
    return mapped.astype("<f4").tobytes()


def _read_items(connection: Connection, count: int, size: int) -> bytes:
    if count > _MOST_ITEMS:
        raise WireError(f"{count} items are more than any client needs")
    return connection.receive(count * size)
