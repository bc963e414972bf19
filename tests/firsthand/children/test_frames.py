"""Messages between processes: what goes in comes out, and nothing else is believed."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsthand.children.frames import MAX_BLOBS, ChannelError, pack, unpack

pytestmark = pytest.mark.unit

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.lists(st.binary(), max_size=4))
def test_a_message_comes_out_as_it_went_in(header: dict[str, object], blobs: list[bytes]) -> None:
    message = unpack(pack(header, *blobs))
    assert message.header == header
    assert message.blobs == blobs


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_message_or_refused(frame: bytes) -> None:
    try:
        message = unpack(frame)
    except ChannelError:
        return
    assert sum(map(len, message.blobs)) < len(frame)


@given(st.data())
def test_a_changed_length_is_noticed(data: st.DataObject) -> None:
    frame = bytearray(pack({"kind": "status"}, b"abc", b"defgh"))
    at = data.draw(st.integers(0, 15))
    frame[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ChannelError):
        unpack(bytes(frame))


@pytest.mark.parametrize("header", [{"a": b"bytes"}, {"a": {1, 2}}, {"a": float("nan")}])
def test_what_is_not_json_is_not_sent(header: dict[str, object]) -> None:
    with pytest.raises(ChannelError, match="JSON"):
        pack(header)


@pytest.mark.parametrize(
    "text", [b"[1]", b"null", b"{", b"\xff", b"[" * 100_000, b'{"a":' + b"1" * 5000 + b"}"]
)
def test_a_header_that_is_no_plain_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(ChannelError):
        unpack(struct.pack("<II", len(text), 0) + text)


def test_more_attachments_than_allowed_are_neither_sent_nor_believed() -> None:
    with pytest.raises(ChannelError, match="attachments"):
        pack({}, *[b""] * (MAX_BLOBS + 1))
    count = MAX_BLOBS + 1
    header = json.dumps({}).encode()
    frame = struct.pack("<II", len(header), count) + bytes(4 * count) + header
    with pytest.raises(ChannelError, match="parts"):
        unpack(frame)


def test_attachments_may_be_views_of_any_shape() -> None:
    view = memoryview(bytearray(range(12))).cast("B", (3, 4))
    assert unpack(pack({}, view)).blobs == [bytes(range(12))]
