"""Packets taken apart for the file come back bit for bit, whatever they hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsthand.api import POSE, Column, Packet, PayloadKind, StreamSchema
from firsthand.recording.layout import HEADER_DTYPE, StreamLayout, group_name

pytestmark = pytest.mark.unit

COLUMNS = (
    Column("flag", "?"),
    Column("seq", "<i4"),
    Column("place", "<f4", (3,), "m"),
    Column("wide", "<f8", (2, 2)),
    Column(POSE, "<f4", (4, 4), "m"),
    Column("tiny", "|u1"),
)
ONE = StreamSchema(name="one", title="", columns=COLUMNS)
MANY = StreamSchema(
    name="many", title="", columns=(*COLUMNS, Column("time_ns", "<i8")), row_time="time_ns"
)
VIDEO = StreamSchema(name="video", title="", columns=COLUMNS, payload=PayloadKind.H264)


@given(data=st.data(), schema=st.sampled_from([ONE, MANY, VIDEO]))
def test_records_come_back_bit_for_bit(data: st.DataObject, schema: StreamSchema) -> None:
    count = data.draw(st.integers(0, 4))
    size = schema.dtype.itemsize * count
    raw = data.draw(st.binary(min_size=size, max_size=size))
    layout = StreamLayout(schema)
    records = np.frombuffer(raw, schema.dtype)
    header = None if layout.has_index else np.zeros(count, HEADER_DTYPE)
    rows, poses = layout.split(records, header)
    assert layout.join(rows, poses, count).tobytes() == raw


def test_a_column_named_like_a_header_field_gets_another_name_in_the_file() -> None:
    layout = StreamLayout(ONE)
    assert layout.stored_name("seq") == "seq_"
    assert {"seq", "seq_"} <= set(layout.table_dtype.names or ())


def test_a_column_keeps_its_name_where_no_header_stands_beside_it() -> None:
    assert StreamLayout(VIDEO).stored_name("seq") == "seq"


@pytest.mark.parametrize(
    ("fields", "payload", "fits"),
    [
        (ONE.dtype.itemsize, 0, True),
        (ONE.dtype.itemsize - 1, 0, False),
        (2 * ONE.dtype.itemsize, 0, False),
        (ONE.dtype.itemsize, 1, False),
    ],
)
def test_a_packet_fits_only_with_the_bytes_that_its_schema_promises(
    fields: int, payload: int, fits: bool
) -> None:
    packet = Packet("one", 0, 0, 0, bytes(fields), bytes(payload))
    assert StreamLayout(ONE).fits(packet) is fits


def test_a_packet_of_rows_may_hold_any_whole_number_of_them() -> None:
    layout = StreamLayout(MANY)
    size = MANY.dtype.itemsize
    assert layout.fits(Packet("many", 0, 0, 0, bytes(3 * size)))
    assert layout.fits(Packet("many", 0, 0, 0, b""))
    assert not layout.fits(Packet("many", 0, 0, 0, bytes(size + 1)))


@pytest.mark.parametrize("name", ["a/b", ".", "..", "", ".hidden", "tab\t"])
def test_a_group_name_means_nothing_to_hdf5(name: str) -> None:
    found = group_name(name)
    assert found
    assert "/" not in found
    assert not found.startswith(".")
    assert found.isprintable()
