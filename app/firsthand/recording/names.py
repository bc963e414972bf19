"""What a recording's files are called and which format they are of."""

from typing import Final

FORMAT: Final = "firsthand-recording"
FORMAT_VERSION: Final = 1
RAW: Final = "raw.h5"
PARTIAL: Final = "raw.h5.partial"
MANIFEST: Final = "manifest.json"
