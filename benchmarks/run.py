"""Run every measurement, one after the other, and write the results into docs/performance.md."""

import datetime
import json
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

from report import Row

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def _machine() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        model = next(
            (x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), model
        )
    memory = psutil.virtual_memory().total / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "h5py", "av"))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return (
        f"Measured on {today}: {psutil.cpu_count()} cores ({model}), {memory:.0f} GiB, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, {packages}."
    )


def _section(told: dict[str, Any]) -> str:
    rows = [Row(**row) for row in told["rows"]]
    lines = [f"### {told['title']}", "", "| What | Measured | Bar | |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(row.words()) + " |" for row in rows]
    if told["notes"]:
        lines += ["", str(told["notes"])]
    return "\n".join(lines)


def main(only: list[str]) -> int:
    """Run the named benchmarks, or all; gives 1 if one of them failed to run."""
    scripts = [s for s in sorted(HERE.glob("bench_*.py")) if not only or s.stem in only]
    sections, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for script in scripts:
            out = Path(folder) / f"{script.stem}.json"
            command = [sys.executable, str(script), "--json", str(out)]
            if subprocess.run(command, check=False, cwd=HERE).returncode or not out.exists():
                print(f"{script.name} did not finish.", file=sys.stderr)
                failed = 1
                continue
            sections.append(_section(json.loads(out.read_text(encoding="utf-8"))))
    if only or failed:
        return failed
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    body = "\n\n".join([_machine(), *sections])
    PAGE.write_text(f"{before}{BEGIN}\n\n{body}\n\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
