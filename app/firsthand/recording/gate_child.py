"""The limited process that looks a file over: prints one line of JSON and ends."""

import json
import sys
from pathlib import Path

from firsthand.recording.gate_walk import Refused, look_over


def main(path: Path) -> None:
    """Print what is in the file, or why it is not to be read."""
    try:
        result = {"good": True, **look_over(path)}
    except Refused as refused:
        result = {"good": False, "why": str(refused)}
    except OSError as error:
        result = {"good": False, "why": f"it could not be read ({error.strerror or error})."}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
