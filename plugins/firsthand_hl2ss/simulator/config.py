"""Settings of the simulated headset."""

from pathlib import Path
from typing import Final, Self

from pydantic import Field, field_validator, model_validator

from firsthand.api import PluginConfig
from firsthand_hl2ss.simulator.ahead_of import read_ahead_of

SCENES: Final = ("scene:demonstration", "scene:replication")


class SimulatorConfig(PluginConfig):
    """What the simulated headset shows, where it listens, and how it behaves when all is well.

    What goes wrong is not set here but asked for as faults.
    """

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    base_port: int = Field(
        default=3800,
        ge=0,
        le=65_500,
        description="First of 22 ports, 3800 on a headset; 0 looks for 22 free ones.",
    )
    source: str = Field(
        default=SCENES[0],
        description="scene:demonstration, scene:replication, or a folder of recordings.",
    )
    seed: int = Field(default=1, description="The same seed gives the same world, faults and gaps.")
    duration_s: float | None = Field(
        default=None, gt=0, description="Length of what is shown; None leaves it to the source."
    )
    loop: bool = Field(
        default=False, description="Begin again at the end; else the wearer looks on."
    )
    voice: bool = Field(
        default=True,
        description="Synthesised speech where there is a voice; else a murmur, ready at once.",
    )
    research_mode: bool = Field(
        default=True, description="Whether the Research Mode ports are open."
    )
    flat_mode: bool = Field(
        default=False, description="Run as a 2-D window: spatial input refuses."
    )
    denied: frozenset[str] = Field(
        default=frozenset(), description="Streams for which permission was denied on the headset."
    )
    app_version: tuple[int, int, int, int] = Field(
        default=(1, 0, 37, 0), description="What remote configuration tells."
    )
    drift_ppm: float = Field(
        default=0.0,
        ge=-1000,
        le=1000,
        description="How fast the headset's crystal runs against ours.",
    )
    wall_clock_offset_s: float = Field(
        default=0.35, description="How far the headset's wall clock is ahead of this computer's."
    )
    camera_opens_s: float = Field(
        default=0.6, ge=0, le=30, description="Time that opening PV takes."
    )
    eye_tracker_opens_s: float = Field(
        default=0.3, ge=0, le=30, description="Wait of the first client of the eye tracker."
    )
    empty_pv_probability: float = Field(
        default=0.002,
        ge=0,
        le=1,
        description="Share of PV packets for which the encoder yields nothing.",
    )
    empty_first_probability: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="How often the first PV packet of a connection is empty.",
    )
    queue_s: float = Field(
        default=1.0,
        gt=0,
        le=60,
        description="What the headset keeps while it cannot send; older readings are dropped.",
    )
    send_buffer_bytes: int | None = Field(
        default=None,
        ge=1024,
        description="Size of the sockets' send buffers; None leaves the system's.",
    )
    encoder_threads: int = Field(
        default=1, ge=1, le=16, description="Threads of each video encoder."
    )
    ahead_s: int = Field(
        default=0,
        ge=0,
        le=120,
        description="Encode so many seconds of the front camera before the first picture is sent, "
        "and show them again and again, for sizes and codecs that this computer is too slow for "
        "live; everything else that is sensed begins anew with them. 0: live.",
    )
    ahead_of: str = Field(
        default="",
        description="What to encode ahead before it listens, such as hevc:1920x1080@30; empty: "
        "what the first client asks for, while it waits.",
    )
    rotating_pictures: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Show so many grey and near-depth pictures in turn instead of making each "
        "afresh: for measurements of throughput. 0: every picture is of its moment.",
    )
    ledger: Path | None = Field(default=None, description="File for the account of every packet.")
    truth_folder: Path | None = Field(
        default=None, description="Folder for what is known for certain about the scene."
    )

    @model_validator(mode="after")
    def _encodes_ahead(self) -> Self:
        if self.ahead_of and not self.ahead_s:
            raise ValueError("ahead_of needs ahead_s: how many seconds are encoded ahead")
        if self.ahead_of:
            read_ahead_of(self.ahead_of)
        return self

    @field_validator("source")
    @classmethod
    def _known_source(cls, source: str) -> str:
        if source.startswith("scene:") and source not in SCENES:
            raise ValueError(
                f"{source!r} is not a built-in scene; there are {' and '.join(SCENES)}"
            )
        return source
