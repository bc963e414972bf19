"""What the accounting must know of a packet before anybody decodes it: its length, is it empty."""

from collections.abc import Callable
from dataclasses import dataclass

from firsthand.api import Packet, StreamRole, StreamSchema


@dataclass(frozen=True, slots=True)
class PacketShape:
    """Reads single values out of a stream's packed records; made once per stream.

    ``length_ns`` gives the time a packet stands for: sound by its samples, batches by the spacing
    of their rows, everything else by the nominal period. 0.0 where it cannot be told.
    """

    length_ns: Callable[[Packet], float]
    is_empty: Callable[[Packet], bool]
    counts: bool
    """Whether lost packets can be counted from device times at all."""


def shape_of(schema: StreamSchema) -> PacketShape:
    """How the packets of this stream are to be measured."""
    dtype = schema.dtype
    offsets = {name: field[1] for name, field in (dtype.fields or {}).items()}
    period_ns = 1e9 / schema.nominal_hz if schema.nominal_hz > 0 else 0.0

    def nominal(_: Packet) -> float:
        return period_ns

    length: Callable[[Packet], float] = nominal
    counts = schema.regular and period_ns > 0
    if schema.role is StreamRole.MICROPHONE and "samples" in offsets and schema.sample_hz > 0:
        length, counts = _sound_length(schema, offsets["samples"]), True
    elif schema.row_time is not None and not schema.regular:
        length, counts = _batch_length(schema, offsets[schema.row_time]), True

    def never(_: Packet) -> bool:
        return False

    empty: Callable[[Packet], bool] = never
    if schema.idle_periods > 0 and "valid" in offsets and "calibrated" in offsets:
        empty = _no_reading(offsets["valid"], offsets["calibrated"])
    return PacketShape(length, empty, counts)


def _sound_length(schema: StreamSchema, offset: int) -> Callable[[Packet], float]:
    size = schema.dtype["samples"].itemsize
    per_sample_ns = 1e9 / schema.sample_hz

    def length(packet: Packet) -> float:
        samples = int.from_bytes(packet.fields[offset : offset + size], "little")
        return samples * per_sample_ns

    return length


def _batch_length(schema: StreamSchema, offset: int) -> Callable[[Packet], float]:
    """A batch of n rows lasts n row spacings. Some drivers give all rows one time: then 0.0."""
    stride = schema.dtype.itemsize

    def length(packet: Packet) -> float:
        rows = len(packet.fields) // stride
        if rows < 2:
            return 0.0
        last = (rows - 1) * stride + offset
        start_ns = int.from_bytes(packet.fields[offset : offset + 8], "little", signed=True)
        stop_ns = int.from_bytes(packet.fields[last : last + 8], "little", signed=True)
        return max(0.0, (stop_ns - start_ns) * rows / (rows - 1))

    return length


def _no_reading(valid_at: int, calibrated_at: int) -> Callable[[Packet], bool]:
    def empty(packet: Packet) -> bool:
        return not (packet.fields[valid_at] or packet.fields[calibrated_at])

    return empty
