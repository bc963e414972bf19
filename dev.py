#!/usr/bin/env python3
"""One command for everything: set the machine up, then run what was asked for.

    python3 dev.py demo    both phases of a study with a simulated headset
    python3 dev.py app     the firsthand command; words that follow are passed on
    python3 dev.py test    every gate and every test; words that follow go to pytest alone
    python3 dev.py lint    the gates alone
    python3 dev.py bench   the measurements; the results go into docs/performance.md
    python3 dev.py soak    the long runs: hundreds of kills and power cuts
    python3 dev.py lock    pin the dependencies anew

Needs Python 3.11 or later and nothing else: it makes an environment of its own in `.venv`, with
pinned and hashed packages, the same on Linux, Windows and macOS.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PACKAGING = ROOT / "packaging"
VENV = ROOT / ".venv"
TOOLS = ROOT / ".tools"
BIN = "Scripts" if os.name == "nt" else "bin"
EXE = ".exe" if os.name == "nt" else ""
SOURCES = ("app", "plugins", "tests", "benchmarks", "dev.py")


class SetupError(Exception):
    """The machine cannot be set up; the words say what to do."""


def say(words: str) -> None:
    """A line of progress, at once."""
    print(f"· {words}", flush=True)


Word = str | Path


def run(
    command: Sequence[Word], env: dict[str, str] | None = None, folder: Path | None = ROOT
) -> int:
    """Run a program in a folder, or with None in the caller's, and give its exit code."""
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=folder, env=env, check=False).returncode


def must(command: Sequence[Word], words: str, env: dict[str, str] | None = None) -> None:
    """Run a program that has to succeed."""
    if run(command, env=env or environment()):
        raise SetupError(f"{words} The program's own words stand above.")


def environment() -> dict[str, str]:
    """This process's environment, with pip's choice of index passed on to uv."""
    env = dict(os.environ)
    env.pop("VIRTUAL_ENV", None)
    if "UV_DEFAULT_INDEX" not in env and "UV_INDEX_URL" not in env:
        asked = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode == 0 and asked.stdout.strip():
            env["UV_DEFAULT_INDEX"] = asked.stdout.strip()
    return env


def system_packages(list_name: str) -> None:
    """Install the listed Debian packages that are missing, or print the one command that does."""
    if shutil.which("dpkg-query") is None:
        return
    lines = (PACKAGING / list_name).read_text(encoding="utf-8").splitlines()
    wanted = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    asked = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package}\n", *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    there = {line.split()[-1] for line in asked.stdout.splitlines() if line.startswith("ii")}
    # A Python that brings venv along needs no package for it.
    if (Path(os.__file__).parent / "ensurepip").is_dir():
        there.add("python3-venv")
    missing = [name for name in wanted if name not in there]
    if not missing:
        return
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        say("Some system packages are missing; what needs them is left out. To add them, run:")
        print(f"    sudo apt-get update && sudo {' '.join(install)}", flush=True)
        return
    say(f"installing system packages: {' '.join(missing)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "-q", "update"], env)
    must(install, "The system packages could not be installed.", env)


def tools() -> Path:
    """The pinned installer, in an environment of its own."""
    uv = TOOLS / BIN / f"uv{EXE}"
    pins = PACKAGING / "requirements-tools.txt"
    stamp = TOOLS / "stamp"
    mark = hashlib.sha256(pins.read_bytes()).hexdigest()
    if uv.exists() and stamp.exists() and stamp.read_text() == mark:
        return uv
    say("fetching the installer")
    shutil.rmtree(TOOLS, ignore_errors=True)
    must([sys.executable, "-m", "venv", TOOLS], "No virtual environment could be made.")
    pip: list[Word] = [
        TOOLS / BIN / f"python{EXE}",
        "-m",
        "pip",
        "install",
        "-q",
        "--require-hashes",
    ]
    must([*pip, "-r", pins], "The installer could not be fetched.")
    stamp.write_text(mark)
    return uv


def python_packages(lock_name: str) -> Path:
    """The project's environment, exactly as locked; gives its Python.

    An environment that already has the development set serves for running as well.
    """
    python = VENV / BIN / f"python{EXE}"
    stamp = VENV / "stamp"
    marks = {}
    for name in ("requirements-dev.txt", "requirements-run.txt"):
        parts = [(PACKAGING / name).read_bytes(), (ROOT / "pyproject.toml").read_bytes()]
        parts += [sys.version.encode(), str(ROOT).encode()]
        marks[name] = hashlib.sha256(b"\0".join(parts)).hexdigest()
    enough = {marks[lock_name], marks["requirements-dev.txt"]}
    if python.exists() and stamp.exists() and stamp.read_text() in enough:
        return python
    uv = tools()
    say("installing Python packages (pinned and hashed)")
    if not python.exists():
        must([uv, "venv", "-q", "--python", sys.executable, VENV], "No environment could be made.")
    stamp.unlink(missing_ok=True)
    install: list[Word] = [uv, "pip", "sync", "-q", "--require-hashes", "--python", python]
    must([*install, PACKAGING / lock_name], "The Python packages could not be installed.")
    own: list[Word] = [
        uv,
        "pip",
        "install",
        "-q",
        "--python",
        python,
        "--no-deps",
        "--no-build-isolation",
    ]
    must([*own, "-e", ROOT], "Firsthand itself could not be installed.")
    stamp.write_text(marks[lock_name])
    return python


def lock(_: Sequence[str] = ()) -> int:
    """Pin every dependency anew, with hashes and without addresses."""
    uv = tools()
    compile_: list[Word] = [
        uv,
        "pip",
        "compile",
        "-q",
        "--universal",
        "--generate-hashes",
        "--upgrade",
    ]
    plain = ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    run_file = PACKAGING / "requirements-run.txt"
    common: list[Word] = [*compile_, *plain, "--python-version", "3.11", "pyproject.toml"]
    groups = ["--extra", "ui", "--group", "dev", "--group", "bench"]
    must([*common, "--group", "build", "-o", run_file], "The dependencies could not be pinned.")
    dev_file = PACKAGING / "requirements-dev.txt"
    must(
        [*common, *groups, "--group", "build", "-c", run_file, "-o", dev_file],
        "The development dependencies could not be pinned.",
    )
    return 0


def lint(_: Sequence[str] = ()) -> int:
    """All gates; every one runs, and the first failure's code is given."""
    python = python_packages("requirements-dev.txt")
    there = [name for name in SOURCES if (ROOT / name).exists()]
    failed = 0
    for words, command in (
        ("ruff: lint", ["-m", "ruff", "check", *there]),
        ("ruff: format", ["-m", "ruff", "format", "--check", *there]),
        ("mypy: strict", ["-m", "mypy"]),
        ("import-linter: who may import whom", ["-c", _LINT_IMPORTS]),
    ):
        say(words)
        code = run([python, *command])
        failed = failed or code
    return failed


_LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"


def test(arguments: Sequence[str]) -> int:
    """Every gate and every test; with arguments, pytest alone with these."""
    system_packages("debian-test.txt")
    python = python_packages("requirements-dev.txt")
    failed = 0 if arguments else lint()
    say("pytest")
    return run([python, "-m", "pytest", *arguments]) or failed


def app(arguments: Sequence[str]) -> int:
    """The firsthand command, in the caller's folder: relative paths mean what they say."""
    system_packages("debian-run.txt")
    python = python_packages("requirements-run.txt")
    called = f"{'python' if os.name == 'nt' else 'python3'} {sys.argv[0]} app"
    env = {**os.environ, "FIRSTHAND_CALLED_AS": called}
    # -P: what lies in that folder is never imported.
    return run([python, "-P", "-m", "firsthand", *arguments], env, folder=None)


def bench(arguments: Sequence[str]) -> int:
    """The measurements, one after the other."""
    system_packages("debian-test.txt")
    python = python_packages("requirements-dev.txt")
    return run([python, ROOT / "benchmarks" / "run.py", *arguments])


def soak(arguments: Sequence[str]) -> int:
    """The long runs of the tests that kill, cut power and break links."""
    system_packages("debian-test.txt")
    python = python_packages("requirements-dev.txt")
    env = {**os.environ, "FIRSTHAND_SOAK": "1"}
    chosen = arguments or ["-m", "soak"]
    return run([python, "-m", "pytest", "-v", "--timeout", "14400", *chosen], env)


def demo(arguments: Sequence[str]) -> int:
    """Both phases of a study with a simulated headset, without windows."""
    return app(["demo", "--headless", *(word for word in arguments if word != "--headless")])


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "demo": demo,
    "app": app,
    "test": test,
    "lint": lint,
    "bench": bench,
    "soak": soak,
    "lock": lock,
}


def main() -> int:
    """Set up and run; gives the exit code."""
    words = sys.argv[1:]
    if sys.hexversion < 0x030B0000:
        print(f"Firsthand needs Python 3.11 or later; this is {platform.python_version()}.")
        return 2
    try:
        if words and words[0] in COMMANDS:
            return COMMANDS[words[0]](words[1:])
        print(__doc__)
    except SetupError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0 if words in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    sys.exit(main())
