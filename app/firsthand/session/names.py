"""Names that become folders: generated codes and plain slugs, and nothing else."""

import re
import secrets
from collections.abc import Collection
from random import Random
from typing import Final

from firsthand.api import SettingsError

SLUG: Final = r"[a-z][a-z0-9_]{0,39}"
PARTICIPANT: Final = r"[a-z][a-z0-9]{2,15}"
_SESSION: Final = re.compile(rf"({PARTICIPANT})-({SLUG})-([0-9]{{2,4}})")
# No vowels, so no words; no signs that look alike.
_LETTERS: Final = "bcdfghjkmnpqrstvwxz"
_DIGITS: Final = "23456789"
# Names that Windows keeps for devices, which would pass as slugs.
_KEPT: Final = {"con", "prn", "aux", "nul"} | {f"{d}{n}" for d in ("com", "lpt") for n in range(10)}


def is_slug(word: str) -> bool:
    """Whether ``word`` may be a step's, phase's or task's id."""
    return re.fullmatch(SLUG, word, re.ASCII) is not None and word not in _KEPT


def participant_code(taken: Collection[str] = (), random: Random | None = None) -> str:
    """A new pseudonymous code such as ``k7wt4``, unlike any in ``taken``.

    ``random`` makes it repeatable for demonstrations and tests; without it nobody can guess it.
    """
    choose = random.choice if random else secrets.choice
    while True:
        code = "".join(choose(signs) for signs in (_LETTERS, _DIGITS, _LETTERS, _LETTERS, _DIGITS))
        if code not in taken:
            return code


def checked_participant(code: str) -> str:
    """``code`` if it may name a participant. Raises ``SettingsError`` in words otherwise."""
    if not re.fullmatch(PARTICIPANT, code, re.ASCII) or code in _KEPT:
        raise SettingsError(
            f"{code[:40]!r} is not a participant code.",
            try_this="Codes have 3 to 16 small letters and digits, beginning with a letter.",
        )
    return code


def session_id(participant: str, phase: str, number: int) -> str:
    """``<participant>-<phase>-<nn>``."""
    checked_participant(participant)
    if not is_slug(phase):
        raise SettingsError(f"{phase[:40]!r} is not the id of a phase.")
    return f"{participant}-{phase}-{number:02d}"


def parse_session_id(name: str) -> tuple[str, str, int] | None:
    """Participant, phase and number of a session folder's name; None for any other name."""
    found = _SESSION.fullmatch(name)
    return (found[1], found[2], int(found[3])) if found and name.isascii() else None
