"""The vocabulary that the core and plugins stand on. Plugins import nothing else of ours."""

from firsthand.api.config import PluginConfig
from firsthand.api.device import (
    CheckableDevice,
    CheckItem,
    ClockPair,
    Device,
    DeviceSink,
    GapCause,
    StreamState,
)
from firsthand.api.errors import (
    Cancelled,
    DamagedError,
    DeviceError,
    FirsthandError,
    PluginError,
    ProtocolError,
    RecordingError,
    SettingsError,
    StorageError,
)
from firsthand.api.exporter import Exporter
from firsthand.api.flat import FlatColumn, flat_columns
from firsthand.api.hooks import PROJECT, hookimpl, hookspec
from firsthand.api.simulator import SimulatedFault, Simulator
from firsthand.api.streams import (
    POSE,
    Clock,
    Column,
    Packet,
    PacketFlags,
    PayloadKind,
    StreamRole,
    StreamSchema,
)
from firsthand.api.view import Frame, GapRow, Progress, RecordingView, Sound

__all__ = [
    "POSE",
    "PROJECT",
    "Cancelled",
    "CheckItem",
    "CheckableDevice",
    "Clock",
    "ClockPair",
    "Column",
    "DamagedError",
    "Device",
    "DeviceError",
    "DeviceSink",
    "Exporter",
    "FirsthandError",
    "FlatColumn",
    "Frame",
    "GapCause",
    "GapRow",
    "Packet",
    "PacketFlags",
    "PayloadKind",
    "PluginConfig",
    "PluginError",
    "Progress",
    "ProtocolError",
    "RecordingError",
    "RecordingView",
    "SettingsError",
    "SimulatedFault",
    "Simulator",
    "Sound",
    "StorageError",
    "StreamRole",
    "StreamSchema",
    "StreamState",
    "flat_columns",
    "hookimpl",
    "hookspec",
]
