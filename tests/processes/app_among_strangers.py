"""The app among plugins that misbehave: it loads what it can, records, and has strangers' code
run meanwhile. Run by ``test_plugins_and_recorder``; prints what came of it as JSON."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from firsthand.api import FirsthandError
from firsthand.host import load_plugins
from firsthand.host.worker import WorkerError, run_in_worker
from firsthand.session.real_tools import RealTools
from firsthand.testing import devices
from firsthand.testing.devices import FakeConfig, FakeStream
from firsthand.testing.recorders import fake_settings, handed_over, wait_for_packets

STREAMS = (
    FakeStream(name="fake_video", hz=60.0, payload_bytes=40_000),
    FakeStream(name="fake_gaze", hz=200.0, record_bytes=100),
)
LOAD_S = 2.0
WORK_S = 3.0


def ends_as(target: str) -> str:
    """What came of strangers' code in a worker."""
    try:
        run_in_worker(
            f"stranger_work:{target}", {}, deadline_s=WORK_S, memory_bytes=256 << 20, plugin="work"
        )
    except WorkerError as error:
        return error.fault.value
    except FirsthandError as error:
        return str(error)
    return "done"


def main() -> None:
    folder, misdeeds = Path(sys.argv[1]), sys.argv[2:]
    host = load_plugins(extra=[devices], deadline_s=LOAD_S)
    tools = RealTools(host, extra_plugins=[devices.MODULE])
    config = FakeConfig(streams=STREAMS, tell_modules=True)
    recorder = tools.start_recorder(fake_settings(folder, device=config))
    wait_for_packets(folder, 10)
    before = handed_over(folder)
    with ThreadPoolExecutor(len(misdeeds)) as pool:
        ends = dict(zip(misdeeds, pool.map(ends_as, misdeeds), strict=True))
    handed = handed_over(folder)
    status = recorder.stop(20.0)
    print(
        json.dumps(
            {
                "refused": sorted(plugin.name for plugin in host.plugins if plugin.refused),
                "ends": ends,
                "before": before,
                "handed": handed,
                "state": status.state,
                "warnings": status.warnings,
            }
        )
    )


if __name__ == "__main__":
    main()
