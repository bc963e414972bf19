"""What a camera tells of itself while nothing much happens."""

import math
from typing import Any


def slowly_varying(t_s: float) -> dict[str, Any]:
    """Exposure, focus and colours in a living room: the fields of ``PvMetadata`` but the lens."""
    glow = 0.5 + 0.5 * math.sin(0.21 * t_s)
    return {
        "exposure_ns": round(16_600_000 + 4_000_000 * glow) // 100 * 100,
        "exposure_compensation": (1, 0),
        "lens_position": 1400 + round(60 * math.sin(0.37 * t_s)),
        "focus_state": 3,
        "iso": 400 + 10 * round(12 * glow),
        "white_balance_k": 4300 + round(120 * math.sin(0.11 * t_s)),
        "iso_gains": (4.0 + glow, 1.0),
        "white_balance_gains": (1.62, 1.0, 2.05 - 0.1 * glow),
    }
