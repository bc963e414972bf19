"""A journal that never stands in the way of a recording: when it fails, that is told once."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from firsthand.api import StorageError
from firsthand.recording.journal import FILE_NAME, Journal


class Diary:
    """The journal in a session's folder. Only its opening may raise.

    ``shout`` gets the words of each different failure to write, once.
    """

    def __init__(self, folder: Path, shout: Callable[[str], None]) -> None:
        self._journal = Journal(folder / FILE_NAME)
        self._shout = shout
        self._shouted: set[str] = set()

    def write(self, kind: str, about: Mapping[str, Any] | None = None, *, by: str = "app") -> None:
        """Store an event, or say that it could not be."""
        try:
            self._journal.write(kind, about, by=by)
        except StorageError as error:
            # The recording is worth more than its diary: it goes on.
            if str(error) not in self._shouted:
                self._shouted.add(str(error))
                self._shout(str(error))

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._journal.close()
