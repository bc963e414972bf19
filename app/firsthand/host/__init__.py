"""Finds plugins, refuses what cannot be used, gives the rest by kind, and guards every call."""

from firsthand.host.guard import Guard
from firsthand.host.info import Offer, PluginInfo
from firsthand.host.plugins import PluginHost, load_plugins
from firsthand.host.worker import Fault, WorkerError, run_in_worker

__all__ = [
    "Fault",
    "Guard",
    "Offer",
    "PluginHost",
    "PluginInfo",
    "WorkerError",
    "load_plugins",
    "run_in_worker",
]
