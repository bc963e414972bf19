"""What may go wrong in words that a person can act on.

Anything raised from this family is shown to people as it stands. Everything else is a defect and
keeps its traceback in the log.
"""


class FirsthandError(Exception):
    """Something a person can act on: what happened, and what to try."""

    def __init__(self, message: str, *, try_this: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.try_this = try_this

    def __str__(self) -> str:
        return f"{self.message} {self.try_this}" if self.try_this else self.message


class SettingsError(FirsthandError):
    """Settings that cannot be used."""


class ProtocolError(FirsthandError):
    """A study protocol that cannot be run; names file and line where known."""


class PluginError(FirsthandError):
    """A plugin that was refused or misbehaved."""


class DeviceError(FirsthandError):
    """A device that cannot be used as asked."""


class StorageError(FirsthandError):
    """The disk or folder does not take or give data."""


class RecordingError(FirsthandError):
    """A recording that cannot be made or used as asked."""


class DamagedError(RecordingError):
    """A recording, log or file whose content does not hold what its checksums promise."""


class Cancelled(FirsthandError):  # noqa: N818  (an end that was asked for, not an error)
    """Work that ended before it was done because somebody asked for that."""
