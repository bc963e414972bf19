"""Exports to files that other programs read: MP4, WAV, CSV."""

from collections.abc import Iterable

from firsthand.api import Exporter, hookimpl
from firsthand_exports.movie import Mp4Exporter
from firsthand_exports.tables import CsvExporter
from firsthand_exports.wav import WavExporter

__all__ = ["CsvExporter", "Mp4Exporter", "WavExporter", "firsthand_exporters"]


@hookimpl
def firsthand_exporters() -> Iterable[type[Exporter]]:
    return [Mp4Exporter, WavExporter, CsvExporter]
