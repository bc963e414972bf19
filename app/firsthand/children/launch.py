"""The first thing a child process runs: it limits itself, then becomes the module it was started
for (``python -m firsthand.children.launch LIMITS MODULE [ARGUMENT …]``).

Limits are set here and not between fork and exec, because the parent has threads, and code that
runs between the two in a process with threads can stand still for ever.
"""

import json
import os
import runpy
import sys
from typing import Any, Final

ADDRESS_SPACE_SLACK: Final = 2 * 1024**3
"""Address space that a process reserves without using it: stacks, thread arenas, mapped libraries.

The address-space limit stops one giant allocation at once; memory that is really used is watched
by the parent, to the byte of the limit.
"""


def apply(limits: dict[str, Any]) -> None:
    """Limit this process: memory, processor time, open files, core dumps, priority."""
    if sys.platform == "win32":
        import psutil

        if limits.get("nice", 0) > 0:
            psutil.Process().nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
    else:
        import resource

        def lower(which: int, value: int) -> None:
            hard = resource.getrlimit(which)[1]
            if hard != resource.RLIM_INFINITY:
                value = min(value, hard)
            try:
                resource.setrlimit(which, (value, value))
            except (ValueError, OSError) as error:  # macOS takes no address-space limit
                print(f"limit {which} was not taken: {error}", file=sys.stderr)

        lower(resource.RLIMIT_CORE, 0)  # a core dump would hold what participants said
        if (memory := limits.get("memory_bytes")) is not None:
            lower(resource.RLIMIT_AS, memory + ADDRESS_SPACE_SLACK)
        if (cpu := limits.get("cpu_s")) is not None:
            lower(resource.RLIMIT_CPU, max(1, round(cpu)))
        if (files := limits.get("open_files")) is not None:
            lower(resource.RLIMIT_NOFILE, files)
        if nice := limits.get("nice", 0):
            os.nice(nice)


def main() -> None:
    """Apply the limits in the first argument and run the module in the second."""
    limits, module = json.loads(sys.argv[1]), sys.argv[2]
    apply(limits)
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
