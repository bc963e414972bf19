"""The app's own log: what the program did, never what people said.

Log lines name streams, plugins, counts and times. What looks like a key or a token is taken
out, whoever logged it, since libraries write what they please.
"""

import logging
import re
from logging.handlers import RotatingFileHandler
from typing import Final

from firsthand.paths import log_dir

_KEEP_FILES: Final = 10
_FILE_BYTES: Final = 5_000_000
_SECRETS: Final = re.compile(
    r"""(?ix)
    \b(?:sk|pk|rk|ghp|xox[abp])[-_][A-Za-z0-9_\-]{8,}
    | (?<=bearer\s)[A-Za-z0-9._~+/\-]{8,}=*
    | (?<=api[-_]key["'=:\s])["'=:\s]*[^\s"',;]{6,}
    | (?<=authorization["'=:\s]).+
    | (?<=password["'=:\s])["'=:\s]*[^\s"',;]+
    """
)


class Redacting(logging.Formatter):
    """Replaces what looks like a secret by a mark, in message, arguments and traceback alike."""

    def format(self, record: logging.LogRecord) -> str:
        """The finished line, cleaned last of all."""
        return _SECRETS.sub("[secret]", super().format(record))


def configure(name: str, *, level: int = logging.INFO) -> None:
    """Send the log of this process to ``<log_dir>/<name>.log``, ten files of 5 MB at most.

    Never raises: a log that cannot be written must not keep a recording from being made.
    """
    root = logging.getLogger()
    handler: logging.Handler
    try:
        log_dir().mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(
            log_dir() / f"{name}.log",
            maxBytes=_FILE_BYTES,
            backupCount=_KEEP_FILES - 1,
            encoding="utf-8",
        )
    except OSError:
        handler = logging.NullHandler()
    handler.setFormatter(Redacting("%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(level)
    for loud in ("libav", "asyncio", "urllib3", "httpx", "openai"):
        logging.getLogger(loud).setLevel(logging.WARNING)
