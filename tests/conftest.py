"""What holds for every test: offscreen Qt, guards against leaks, nothing but loopback."""

import os

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

pytest_plugins = ["firsthand.testing.guards"]
