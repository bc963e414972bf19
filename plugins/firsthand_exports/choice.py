"""Which streams of a recording an export is about."""

from firsthand.api import RecordingError, RecordingView, StreamRole, StreamSchema


def first_of(recording: RecordingView, role: StreamRole) -> StreamSchema | None:
    """The first stream in a role that has packets."""
    for schema in recording.schemas.values():
        if schema.role is role and len(recording.times_s(schema.name)):
            return schema
    return None


def named(recording: RecordingView, name: str) -> StreamSchema:
    """The stream called ``name``. Raises ``RecordingError`` with what there is."""
    try:
        return recording.schemas[name]
    except KeyError:
        raise RecordingError(
            f"The recording has no stream {name!r}.",
            try_this=f"It has {', '.join(recording.schemas)}.",
        ) from None
