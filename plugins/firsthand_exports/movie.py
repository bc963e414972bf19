"""MP4: the pictures as the headset coded them, at their true times, with sound in step.

Time 0 of the file is the start of the session, so that its times are those of every table.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field

from firsthand.api import (
    Exporter,
    PacketFlags,
    PluginConfig,
    Progress,
    RecordingError,
    RecordingView,
    StreamRole,
    StreamSchema,
)
from firsthand_exports.choice import first_of, named
from firsthand_exports.pictures import (
    CODED,
    TIME_BASE,
    Picture,
    add_video_stream,
    pictures,
    to_packet,
)
from firsthand_exports.sound import SoundTrack

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

_BLOCK_S: Final = 2.0


class Mp4Config(PluginConfig):
    """What goes into the MP4."""

    video: str = Field(default="", description="Stream of the pictures; empty: the front camera.")
    sound: bool = Field(default=True, description="Whether sound goes along, coded as AAC.")
    sound_kbit: int = Field(default=192, ge=32, le=320, description="Kilobits a second for sound.")


class Mp4Exporter(Exporter):
    """Writes ``video.mp4`` (or ``<stream>.mp4`` for another stream)."""

    name: ClassVar[str] = "mp4"
    title: ClassVar[str] = "MP4: video as recorded, with sound"
    Config: ClassVar[type[PluginConfig]] = Mp4Config
    config: Mp4Config

    def export(self, recording: RecordingView, out: Path, progress: Progress) -> Sequence[Path]:
        import av

        schema = self._video(recording)
        coded = pictures(recording, schema)
        first = next(coded, None)
        if first is None:
            raise RecordingError(f"The stream {schema.name} holds no picture that can be decoded.")
        microphone = first_of(recording, StreamRole.MICROPHONE) if self.config.sound else None
        path = out / (f"{self.config.video}.mp4" if self.config.video else "video.mp4")
        # When the first picture is shown stands in the file in whole ticks of this clock, and the
        # usual ones are milliseconds: all pictures would be early by a part of one.
        ticks = {"movie_timescale": str(TIME_BASE.denominator)}
        with av.open(str(path), "w", format="mp4", options=ticks) as output:
            stream = add_video_stream(
                output, schema, first, one_encoder=_connections(recording, schema) <= 1
            )
            period = round(1 / (schema.nominal_hz or 30.0) / TIME_BASE)
            blocks = _blocks(chain([first], coded), period)
            if microphone is None:
                for block in blocks:
                    _write(output, stream, block)
                    progress(_share(block, recording), "writing pictures")
            else:
                with ThreadPoolExecutor(os.cpu_count() or 1, "sound") as pool:
                    kbit = self.config.sound_kbit
                    track = SoundTrack(output, recording, microphone, kbit, pool)
                    for block in blocks:
                        for packet in track.upto(float(block[-1][0].at * TIME_BASE)):
                            output.mux_one(packet)
                        _write(output, stream, block)
                        progress(_share(block, recording), "writing pictures and sound")
                    for packet in track.rest():
                        output.mux_one(packet)
        progress(1.0, "done")
        return [path]

    def _video(self, recording: RecordingView) -> StreamSchema:
        if self.config.video:
            schema: StreamSchema | None = named(recording, self.config.video)
        else:
            schema = first_of(recording, StreamRole.VIDEO)
        if schema is None:
            raise RecordingError(
                "The recording has no video.", try_this="Export it as csv or wav instead."
            )
        if schema.payload not in CODED:
            raise RecordingError(
                f"The pictures of {schema.name} are not coded (they are {schema.payload.value}), "
                "and MP4 takes coded ones only.",
                try_this="Record with H.264 or HEVC to export as MP4.",
            )
        return schema


def _write(
    output: "OutputContainer", stream: "VideoStream", block: list[tuple[Picture, int]]
) -> None:
    for picture, duration in block:
        output.mux_one(to_packet(picture, stream, duration))


def _blocks(coded: Iterator[Picture], period: int) -> Iterator[list[tuple[Picture, int]]]:
    """Pictures with how long each is shown, in blocks of some seconds."""
    block: list[tuple[Picture, int]] = []
    end: Picture | None = None
    length = round(_BLOCK_S / TIME_BASE)
    for picture, following in pairwise(chain(coded, [None])):
        if picture is None:
            break
        duration = period if following is None else following.at - picture.at
        block.append((picture, duration))
        end = block[0][0]
        if picture.at - end.at >= length:
            yield block
            block = []
    if block:
        yield block


def _share(block: list[tuple[Picture, int]], recording: RecordingView) -> float:
    return min(1.0, float(block[-1][0].at * TIME_BASE) / max(recording.duration_s, 0.001))


def _connections(recording: RecordingView, schema: StreamSchema) -> int:
    flags = recording.flags(schema.name)
    return int(((flags & int(PacketFlags.NEW_CONNECTION)) != 0).sum())
