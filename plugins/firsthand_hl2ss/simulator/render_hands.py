"""Hands and forearms, drawn over what they hold."""

from typing import Final

import cv2
import numpy as np

from firsthand_hl2ss.simulator.render_canvas import Canvas, shade, to_yuv
from firsthand_hl2ss.simulator.scene_geometry import Camera
from firsthand_hl2ss.simulator.scene_hands import Hand
from firsthand_hl2ss.simulator.scene_world import Colour

_FINGERS: Final = ((2, 3, 4, 5), *((f, f + 1, f + 2, f + 3, f + 4) for f in (6, 11, 16, 21)))
_PALM: Final = (1, 2, 3, 7, 12, 17, 22, 21)


def draw_hand(canvas: Canvas, camera: Camera, hand: Hand, skin: Colour, sleeve: Colour) -> None:
    """Draw one hand from its joints; nothing where any of it lies behind the camera."""
    seen = camera.to_camera(np.vstack([hand.positions, hand.elbow]))
    if (seen[:, 2] > -0.10).any():
        return
    at = camera.pixels(seen)
    joints, elbow = at[:-1], at[-1]
    if (joints < -200).any(axis=1).all():
        return
    scale = camera.fx / -seen[:-1, 2]
    widths = hand.radii * scale * 2
    ink, tone = to_yuv(shade(skin, 0.50)), to_yuv(skin)
    cloth, seam = to_yuv(sleeve), to_yuv(shade(sleeve, 0.55))
    rim = max(1.5, camera.width / 700)
    wrist = joints[1]
    cuff = wrist + 0.22 * (elbow - wrist)
    arm = float(widths[1])
    far = seen[1] + 2.4 * (seen[-1] - seen[1])  # past the elbow, so that no sleeve ends in mid air
    if far[2] > -0.07:
        far = seen[1] + (far - seen[1]) * (-0.07 - seen[1, 2]) / (far[2] - seen[1, 2])
    end = camera.pixels(far)
    end_wide = min(0.075 * camera.fx / -float(far[2]), camera.width / 3)
    along = (elbow - wrist) / max(1.0, float(np.linalg.norm(elbow - wrist)))
    across = np.array([-along[1], along[0]])
    outline = cv2.convexHull(joints[list(_PALM)].astype(np.float32)).reshape(-1, 2)
    plump = float(widths[7]) * 0.75
    order = sorted(_FINGERS, key=lambda finger: float(seen[finger[-1], 2]))
    for colour, more in ((ink, 2 * rim), (tone, 0.0)):
        canvas.line(np.stack([wrist, cuff]), colour, arm * 1.12 + more)
        canvas.line(outline.astype(np.float64), colour, plump + more, closed=True)
        canvas.fill(outline.astype(np.float64), colour)
    for finger in order:
        points, thick = joints[list(finger)], float(widths[finger[-2]]) * 1.05
        for colour, more in ((ink, 2 * rim), (tone, 0.0)):
            canvas.line(points[1:], colour, thick + more)
        canvas.line(points[:2], tone, thick)
        canvas.dot(points[-1], thick * 0.30, to_yuv(shade(skin, 1.13)))
    for colour, more in ((seam, rim), (cloth, 0.0)):
        canvas.fill(
            np.stack(
                [
                    cuff + across * (arm * 0.86 + more),
                    end + across * (end_wide + more),
                    end - across * (end_wide + more),
                    cuff - across * (arm * 0.86 + more),
                ]
            ),
            colour,
        )
    canvas.line(
        np.stack([cuff + across * arm * 0.86, cuff - across * arm * 0.86]),
        seam,
        max(2.0, arm * 0.12),
    )
