"""Where things are, on every system: shipped data, recordings, logs, run-time files."""

import os
import stat
from importlib.resources import files
from pathlib import Path

import platformdirs

from firsthand.api import StorageError

_NAME = "firsthand"


def checkout_dir() -> Path | None:
    """The source checkout this package runs from, or None where it is installed."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() and (root / "app").is_dir() else None


def study_protocols_dir() -> Path:
    """The folder of protocols, sheets and catalogues that come with Firsthand."""
    root = checkout_dir()
    return root / "study_protocols" if root else Path(str(files(_NAME))) / "study_protocols"


def recordings_dir() -> Path:
    """The default place for studies' data: the checkout's ``recordings``, else the documents."""
    root = checkout_dir()
    return root / "recordings" if root else Path(platformdirs.user_documents_dir()) / "Firsthand"


def log_dir() -> Path:
    """The folder of the app's own log files. They name no participant."""
    chosen = os.environ.get("FIRSTHAND_LOG_DIR")
    return Path(chosen) if chosen else Path(platformdirs.user_log_dir(_NAME, appauthor=False))


def runtime_dir() -> Path:
    """A private folder (0700) for addresses and keys of running processes; made if missing.

    Raises ``StorageError`` where it belongs to somebody else.
    """
    chosen = os.environ.get("FIRSTHAND_RUNTIME_DIR")
    login = os.environ.get("XDG_RUNTIME_DIR")
    if chosen:
        folder = Path(chosen)
    elif login and Path(login).is_dir():
        folder = Path(login) / _NAME
    else:
        # No login session, so no run-time folder of the system's: the cache is private as well.
        folder = Path(platformdirs.user_cache_dir(_NAME, appauthor=False)) / "run"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if os.name == "posix":
        about = folder.stat()
        if about.st_uid != os.getuid():
            raise StorageError(
                f"The folder {folder} belongs to another user, so keys cannot be kept there.",
                try_this="Set FIRSTHAND_RUNTIME_DIR to a folder of your own.",
            )
        if stat.S_IMODE(about.st_mode) & 0o077:
            folder.chmod(0o700)
    return folder
