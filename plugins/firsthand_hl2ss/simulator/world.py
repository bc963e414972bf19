"""The world frame of one run of the app: where its origin lies in what the source shows.

The first run's frame is the source's own, so that the truth beside a recording holds as it stands.
Starting the app again makes a new one: turned about gravity, and with its origin elsewhere.
"""

import math
import random

import numpy as np

from firsthand_hl2ss.simulator.source import F4, F8, Ray


class World:
    """Leads what the source tells into the app's present world frame. Read from any thread."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(f"world {seed}")  # noqa: S311 – a simulation, not a secret
        self._matrix: F8 = np.eye(4)

    @property
    def matrix(self) -> F8:
        """(4, 4), row vectors: source's world to the app's."""
        return self._matrix

    def begin_anew(self) -> None:
        """Another start of the app: another frame."""
        angle = self._chance.uniform(0.3, 2 * math.pi - 0.3)
        matrix = np.eye(4)
        matrix[0, 0] = matrix[2, 2] = math.cos(angle)
        matrix[0, 2], matrix[2, 0] = -math.sin(angle), math.sin(angle)
        matrix[3, :3] = [self._chance.uniform(-2, 2), self._chance.uniform(-0.3, 0.3), 1.0]
        self._matrix = matrix

    def pose(self, pose: F4) -> F4:
        """A sensor's pose; all zero stays all zero, "not located"."""
        if pose[3, 3] == 0:
            return pose
        return (pose.astype(np.float64) @ self._matrix).astype(np.float32)

    def points(self, points: F4) -> F4:
        """(…, 3) positions."""
        return (points @ self._matrix[:3, :3] + self._matrix[3, :3]).astype(np.float32)

    def directions(self, directions: F4) -> F4:
        """(…, 3) directions."""
        return (directions @ self._matrix[:3, :3]).astype(np.float32)

    def ray(self, ray: Ray) -> Ray:
        return Ray(self.points(ray.origin), self.directions(ray.direction), ray.valid)

    def orientations(self, xyzw: F4) -> F4:
        """(…, 4) quaternions x y z w."""
        yaw = math.atan2(self._matrix[2, 0], self._matrix[0, 0])
        sin, cos = math.sin(yaw / 2), math.cos(yaw / 2)
        x, y, z, w = (xyzw[..., i].astype(np.float64) for i in range(4))
        # The Hamilton product (0, sin, 0, cos) * q: first q, then the turn about +y.
        turned = np.stack(
            [cos * x + sin * z, cos * y + sin * w, cos * z - sin * x, cos * w - sin * y], axis=-1
        )
        return turned.astype(np.float32)
