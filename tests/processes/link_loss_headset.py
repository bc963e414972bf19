"""A simulated headset in a network namespace: serves until its input ends, then tells its ledger.

Run by ``test_link_loss`` as a script: ``python link_loss_headset.py ADDRESS``.
"""

import json
import sys

from firsthand_hl2ss.simulator import Hl2ssSimulator, SimulatorConfig

config = SimulatorConfig(host=sys.argv[1], voice=False, camera_opens_s=0.2, eye_tracker_opens_s=0)
with Hl2ssSimulator(config) as headset:
    print("ready", flush=True)
    sys.stdin.read()
slots = {}
for stream in ("pv", "eet", "si", "mic"):
    sent = [row.timestamp_hns for row in headset.ledger.sent(stream, complete=False)]
    slots[stream] = {
        "sent": sent,
        "unsent": [[row.timestamp_hns, row.count] for row in headset.ledger.unsent(stream)],
        "holes": headset.ledger.holes(stream),
    }
print(json.dumps(slots), flush=True)
