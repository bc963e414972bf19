"""Plugins that misbehave, written as installed distributions, to show that nothing is lost by them.

``install`` puts a distribution with entry-point metadata into a folder; with that folder on
``PYTHONPATH`` a fresh process finds it like any stranger's plugin.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

GOOD: Final = '''
from collections.abc import Iterable, Sequence

from firsthand.api import Device, DeviceSink, PluginConfig, StreamSchema, hookimpl


class QuietConfig(PluginConfig):
    streams: int = 1


class QuietDevice(Device):
    """Opens, and has nothing to say."""

    name = "{offered}"
    title = "A device that is quiet"
    Config = QuietConfig

    def schemas(self) -> Sequence[StreamSchema]:
        return [StreamSchema("quiet", "Silence", stalls_after_s=60.0)]

    def open(self, sink: DeviceSink) -> None:
        pass

    def close(self) -> None:
        pass


@hookimpl
def firsthand_devices() -> Iterable[type[Device]]:
    return [QuietDevice]
'''
"""A plugin without fault that offers the device ``{offered}``."""

_HOOKS: Final = """
from firsthand.api import hookimpl


@hookimpl
def firsthand_devices():
    {devices}


@hookimpl
def firsthand_exporters():
    {exporters}


@hookimpl
def firsthand_simulators():
    {simulators}
"""

_TALKS_TO_PARENT: Final = """
import gc

from firsthand.children.channel import Channel

for channel in [each for each in gc.get_objects() if isinstance(each, Channel)]:
    {act}
"""


def _in_every_hook(act: str) -> str:
    return _HOOKS.format(devices=act, exporters=act, simulators=act)


BAD: Final[Mapping[str, str]] = {
    "missing_import": "import a_library_that_nobody_has\n",
    "syntax_error": "def firsthand_devices(:\n",
    "raises_at_import": "raise RuntimeError('no licence was found')\n",
    "raises_in_hooks": _in_every_hook("raise ValueError('not today')"),
    "raises_in_exporters": _HOOKS.format(
        devices="return []", exporters="raise ValueError('not today')", simulators="return []"
    ),
    "nonsense_in_hooks": _in_every_hook("return 42"),
    "nothing_in_hooks": _in_every_hook("return None"),
    "not_classes": _in_every_hook("return [1, 'two']"),
    "endless_offers": _in_every_hook("return iter(int, 1)"),
    "hangs_at_import": "import time\ntime.sleep(3600)\n",
    "spins_at_import": "while True:\n    pass\n",
    "hangs_in_hook": _in_every_hook("import time; time.sleep(3600)"),
    "freezes_python": "print((3**40_000_000 % 10**9) + 3**900_000_000 % 7)\n",
    "leaks": "hold = []\nwhile True:\n    hold.append(bytearray(b'x' * 20_000_000))\n",
    "giant": "hold = bytearray(64 * 1024**3)\n",
    "floods_messages": _TALKS_TO_PARENT.format(
        act="[channel.send({'done': 0.5, 'words': ''}) for _ in iter(int, 1)]"
    ),
    "floods_bytes": _TALKS_TO_PARENT.format(
        act="channel._road.send_bytes(bytes(64 * 1024 * 1024))"
    ),
    "prints_endlessly": "while True:\n    print('x' * 100_000, flush=True)\n",
    "exits": "import os\nos._exit(3)\n",
    "sys_exits": "import sys\nsys.exit('done')\n",
    "crashes": "import ctypes\nctypes.string_at(0)\n",
    "forks_and_hangs": (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'],"
        " start_new_session=True)\n"
        "time.sleep(3600)\n"
    ),
    "misspelt": (
        "from firsthand.api import hookimpl\n\n\n"
        "@hookimpl\ndef firsthand_device():\n    return []\n"
    ),
    "unmarked": "def firsthand_devices():\n    return []\n",
    "wrong_arguments": (
        "from firsthand.api import hookimpl\n\n\n"
        "@hookimpl\ndef firsthand_devices(app):\n    return []\n"
    ),
    "no_hooks": "x = 1\n",
}
"""Source of one module per misdeed, by its name."""


def install(folder: Path, name: str, source: str, *, version: str = "1.0") -> Path:
    """Write the distribution ``stranger-<name>`` with one plugin ``name`` into ``folder``.

    Gives the module's file.
    """
    module = folder / f"stranger_{name}.py"
    module.write_text(source, encoding="utf-8")
    about = folder / f"stranger_{name}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: stranger-{name}\nVersion: {version}\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text(
        f"[firsthand]\n{name} = stranger_{name}\n", encoding="utf-8"
    )
    return module


def install_bad(folder: Path, *names: str) -> None:
    """Install the misdeeds ``names``, or all of them."""
    for name in names or BAD:
        install(folder, name, BAD[name])


def install_good(folder: Path, name: str = "good", *, offered: str = "quiet") -> None:
    """Install a plugin without fault that offers the device ``offered``."""
    install(folder, name, GOOD.format(offered=offered))
