"""What is in a recording, as facts: for ``firsthand info`` and for whoever lists recordings."""

from pathlib import Path
from typing import Any

from firsthand.recording.finalise_manifest import notes_of
from firsthand.recording.reader.opening import manifest_beside, open_recording
from firsthand.recording.reader.recording import Recording


def facts(path: Path) -> dict[str, Any]:
    """Facts about the recording at ``path``, JSON types.

    Raises as ``firsthand.open`` does: the file is looked over before anything is read.
    """
    with open_recording(path) as recording:
        manifest = manifest_beside(Path(recording.filename))
        return {
            "path": str(path),
            "session": dict(manifest.session or recording.session),
            "state": manifest.state.value if manifest.files else "without a manifest",
            "rehearsal": manifest.rehearsal,
            "start_utc": recording.start_utc.isoformat(),
            "duration_s": recording.duration_s,
            "bytes": Path(recording.filename).stat().st_size,
            "app_version": str(manifest.app.get("version", "")),
            "plugins": manifest.plugins,
            "notes": list(notes_of(manifest)),
            "streams": [_stream(recording, name) for name in recording.streams],
            "clocks": [
                fit.to_json() for stretches in recording.clock.values() for fit in stretches
            ],
            "calibrations": sorted(recording.calibration),
            "events": len(recording.events),
        }


def _stream(recording: Recording, name: str) -> dict[str, Any]:
    stream = recording.streams[name]
    schema = stream.schema
    losses = [gap for gap in stream.gaps if gap.packets_lost]
    times = stream.times_s
    return {
        "name": name,
        "title": schema.title,
        "role": schema.role.value,
        "payload": schema.payload.value,
        "packets": len(stream),
        "records": len(times),
        "bytes": recording.store(name).bytes,
        "nominal_hz": schema.nominal_hz,
        "first_s": float(times.min()) if len(times) else None,
        "last_s": float(times.max()) if len(times) else None,
        "gaps": len(losses),
        "lost": sum(max(0, gap.packets_lost) for gap in losses),
        "size_px": [schema.width_px, schema.height_px] if schema.width_px else None,
        "sample_hz": schema.sample_hz or None,
        "channels": schema.channels or None,
    }
