"""What a child process gets to know of its surroundings: what Python needs to run, and no more.

Keys of services that happen to lie in the environment never reach a child this way.
"""

import os
from collections.abc import Mapping
from typing import Final

_KEPT: Final = frozenset(
    {
        "PATH",
        "HOME",
        "LANG",
        "TMP",
        "TEMP",
        "TMPDIR",
        "TZ",
        "SSL_CERT_FILE",
        # Windows: without these neither sockets nor the user's folders are found.
        "SYSTEMROOT",
        "USERPROFILE",
        "APPDATA",
        "LOCALAPPDATA",
        "PATHEXT",
        # The places that platformdirs looks at, so that parent and child agree on folders.
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    }
)
_KEPT_PREFIXES: Final = ("FIRSTHAND_", "LC_")


def scrubbed(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a child: the kept names, ``PYTHONPATH`` made absolute, and ``more``."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in _KEPT or name.upper().startswith(_KEPT_PREFIXES)
    }
    if path := os.environ.get("PYTHONPATH"):
        # Which plugins there are may depend on it; absolute, since a child may work elsewhere.
        kept["PYTHONPATH"] = os.pathsep.join(
            os.path.abspath(entry)  # noqa: PTH100  (Path.resolve would follow links)
            for entry in path.split(os.pathsep)
            if entry
        )
    kept.update(more or {})
    return kept
