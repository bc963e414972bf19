"""Makes a plugin of one's own from the template in the documentation."""

import keyword
import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from firsthand.api import SettingsError, StorageError
from firsthand.paths import checkout_dir

_PLACEHOLDER: Final = "newplugin"
_NAME = re.compile(r"[a-z][a-z0-9_]{1,29}")


def template_dir() -> Path:
    """The template: a whole plugin project that goes by the name of ``newplugin``."""
    root = checkout_dir()
    if root is not None:
        return root / "docs" / "plugins" / "template"
    return Path(str(files("firsthand"))) / "plugin_template"


def generate(name: str, out: Path) -> Path:
    """Write the template under the name ``name`` into a new folder below ``out``; gives the folder.

    Raises ``SettingsError`` for a name that no module can bear, ``StorageError`` where the folder
    is there already.
    """
    if _NAME.fullmatch(name) is None or keyword.iskeyword(name):
        raise SettingsError(
            f"A plugin cannot be called {name!r}.",
            try_this="Use 2 to 30 small letters, digits and underscores, a letter first.",
        )
    words = {  # in this order: a distribution's name is written with dashes
        f"firsthand-{_PLACEHOLDER}": f"firsthand-{name.replace('_', '-')}",
        _PLACEHOLDER: name,
        _PLACEHOLDER.capitalize(): "".join(part.capitalize() for part in name.split("_")),
    }
    folder = out / _named(f"firsthand_{_PLACEHOLDER}", words)
    if folder.exists():
        raise StorageError(
            f"The folder {folder} is there already.", try_this="Choose another name or --out."
        )
    source = template_dir()
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        if path.is_file() and not any(_is_a_cache(part) for part in inside.parts):
            target = folder / _named(str(inside), words)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_named(path.read_text(encoding="utf-8"), words), encoding="utf-8")
    return folder


def _is_a_cache(name: str) -> bool:
    """Whether tools left it in the template: their folders are hidden, but for Python's own."""
    return name.startswith(".") or name == "__pycache__"


def _named(text: str, words: dict[str, str]) -> str:
    for placeholder, word in words.items():
        text = text.replace(placeholder, word)
    return text
