"""Asks the headset for calibrations: factory numbers of cameras and sensors."""

import threading
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from firsthand_hl2ss import dial, wire_data
from firsthand_hl2ss.dial import Address
from firsthand_hl2ss.plan import StreamPlan
from firsthand_hl2ss.wire import Port
from firsthand_hl2ss.wire_config import Format, pack_calibration, pack_pv_calibration

_LAYOUTS: Final[dict[Port, np.dtype[np.void]]] = {
    Port.PERSONAL_VIDEO: wire_data.PV_CALIBRATION,
    Port.VLC_LEFT_FRONT: wire_data.VLC_CALIBRATION,
    Port.VLC_LEFT_LEFT: wire_data.VLC_CALIBRATION,
    Port.VLC_RIGHT_FRONT: wire_data.VLC_CALIBRATION,
    Port.VLC_RIGHT_RIGHT: wire_data.VLC_CALIBRATION,
    Port.DEPTH_LONG_THROW: wire_data.DEPTH_LONG_THROW_CALIBRATION,
    Port.DEPTH_AHAT: wire_data.DEPTH_AHAT_CALIBRATION,
    Port.IMU_ACCELEROMETER: wire_data.IMU_CALIBRATION,
    Port.IMU_GYROSCOPE: wire_data.IMU_CALIBRATION,
}
_ABOUT: Final[dict[str, str]] = {
    "focal_length": "px",
    "principal_point": "px, from the top left",
    "projection": "undistorted projection of the camera's intrinsics",
    "extrinsics": "rig (left-front grey camera) to this sensor, row vectors, metres",
    "raw_intrinsics": "fx fy cx cy of the media type",
    "raw_translation": "m, the camera in the rig",
    "raw_rotation": "quaternion x y z w, the camera in the rig",
    "undistorted": "fx fy cx cy",
    "scale": "depth units per metre",
    "alias": "mm after which depth wraps",
}


class CalibrationError(Exception):
    """No calibration came; the message says how."""


def fetch(
    plan: StreamPlan, address: Address, connect_s: float, wait_s: float, stop: threading.Event
) -> dict[str, npt.NDArray[Any]]:
    """A stream's calibration as named arrays.

    The port must be free: another client there makes this wait for ``wait_s``. Raises
    ``CalibrationError``, or ``Stopped``.
    """
    layout = _LAYOUTS[plan.port]
    settings = plan.schema.settings
    if plan.port is Port.PERSONAL_VIDEO:
        size = Format(settings["width"], settings["height"], settings["fps"])
        request = pack_pv_calibration(size)
    else:
        request = pack_calibration()
    try:
        sock = dial.dial(address.of(plan.port), connect_s, stop)
    except OSError as error:
        raise CalibrationError(str(error)) from error
    try:
        sock.settimeout(connect_s)
        sock.sendall(request)
        data = dial.receive_exactly(sock, layout.itemsize, wait_s, stop)
    except (OSError, EOFError) as error:
        raise CalibrationError(str(error) or type(error).__name__) from error
    finally:
        # Waiting behind another client: a reset keeps the app from computing it for nobody.
        dial.abort(sock)
    return parse(layout, data)


def parse(layout: np.dtype[np.void], data: bytes) -> dict[str, npt.NDArray[Any]]:
    """A calibration's bytes as named arrays. Raises ``CalibrationError`` for impossible ones."""
    record = np.frombuffer(data, layout)[0]
    values = {name: np.array(record[name]) for name in layout.names or ()}
    if not np.isfinite(values["extrinsics"]).all():
        raise CalibrationError("extrinsics that are not numbers")
    return values


def about(plan: StreamPlan) -> dict[str, Any]:
    """What stands beside a calibration in the recording."""
    names = _LAYOUTS[plan.port].names or ()
    return {
        "stream": plan.name,
        "settings": plan.schema.settings,
        "values": {name: _ABOUT[name] for name in names if name in _ABOUT},
    }
