"""Checks how well the clocks are known: pairs there are, how they fit, how clocks drift."""

from firsthand.api import Clock
from firsthand.recording.check_report import CheckLimits, CheckReport, Verdict
from firsthand.recording.reader.recording import Recording


def check_clocks(recording: Recording, limits: CheckLimits, report: CheckReport) -> None:
    """Each clock that a stream is stamped with must be measured, and run steadily."""
    used = {stream.schema.clock for stream in recording.streams.values() if len(stream)}
    fits = recording.clock
    for clock in sorted(used - {Clock.HOST}):
        about = f"clock {clock.value}"
        stretches = fits.get(clock) or ()
        pairs = sum(fit.pairs for fit in stretches)
        if not pairs:
            words = "was never measured: times are taken from when packets arrived"
            report.add(about, "pairs", Verdict.DEGRADED, words)
            continue
        residual_ms = max(fit.residual_p95_ns for fit in stretches) / 1e6
        drift_ppm = max((fit.rate_ppm for fit in stretches), key=abs)
        uncertain_ms = max(fit.uncertainty_ns for fit in stretches) / 1e6
        good = residual_ms <= limits.clock_residual_ms
        # Seconds of pairs say nothing of millionths: the drift counts once it could matter.
        drifted_ms = max(
            abs(fit.rate_ppm) * 1e-6 * (fit.host_stop_ns - fit.host_start_ns) / 1e6
            for fit in stretches
        )
        steady = abs(drift_ppm) <= limits.clock_drift_ppm or drifted_ms < limits.clock_residual_ms
        verdict = Verdict.GOOD if good and steady else Verdict.DEGRADED
        words = (
            f"{pairs} pairs in {len(stretches)} stretch(es), drift {drift_ppm:+.1f} ppm,"
            f" residual {residual_ms:.2f} ms"
        )
        report.add(
            about,
            "pairs",
            verdict,
            words,
            pairs=pairs,
            drift_ppm=drift_ppm,
            residual_p95_ms=residual_ms,
            uncertainty_ms=uncertain_ms,
            stretches=len(stretches),
        )
