"""Firsthand: study software for learning from a demonstration."""

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firsthand.recording.reader.recording import Recording

__all__ = ["__version__", "open"]
__version__ = "0.1.0"


def open(  # noqa: A001  (firsthand.open is what researchers type)
    path: str | os.PathLike[str], *, trusted: bool = False
) -> "Recording":
    """Open a recording for reading: a session's folder, or its ``raw.h5``.

    Times are seconds from the start of the session, or UTC ``datetime``; see ``Recording``.
    ``trusted`` leaves out the look at the file's structure in a limited process.
    """
    # By name, so that importing the package brings no HDF5 along: the recorder does without it.
    opening = importlib.import_module("firsthand.recording.reader.opening")
    recording: Recording = opening.open_recording(path, trusted=trusted)
    return recording
