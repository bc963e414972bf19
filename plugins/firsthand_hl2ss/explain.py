"""Why a stream does not come, found by elimination, in words for an administrator."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from firsthand.api import GapCause, StreamState
from firsthand_hl2ss.remote import RemoteOutcome
from firsthand_hl2ss.wire import Port


class Ending(StrEnum):
    """How an attempt to receive a stream ended, or what it waits for."""

    NO_ANSWER = "no answer"
    REFUSED = "refused"
    CLOSED_AT_ONCE = "closed at once"
    """Before a single byte came."""
    SILENT = "silent"
    """Connected, and not a byte has come so far."""
    STRANGE = "strange"
    """The first bytes were nothing that the app sends."""
    DAMAGED = "damaged"
    CLOSED = "closed"
    """After packets had come."""
    STALLED = "stalled"
    """Silence on a connection that delivered, while the path is alive."""
    PATH_DEAD = "path dead"
    """Silence on a connection that delivered, and nothing else answers."""
    CAMERA_OFF = "camera off"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where the stream stands, why packets will be missing, and a sentence about it."""

    state: StreamState
    cause: GapCause
    words: str


_PERMISSION: Final = {
    Port.PERSONAL_VIDEO: "camera",
    Port.MICROPHONE: "microphone",
    Port.SPATIAL_INPUT: "eye tracker",
    Port.EXTENDED_EYE_TRACKER: "eye tracker",
    Port.IMU_ACCELEROMETER: "movements",
    Port.IMU_GYROSCOPE: "movements",
    Port.IMU_MAGNETOMETER: "movements",
}
_TRIED_AGAIN: Final = "It is tried again by itself."
_ASLEEP: Final = (
    "The headset does not answer at all: it may be asleep or switched off, out of the Wi-Fi's "
    "reach, or at another address. Wake it and look at its Wi-Fi; recording goes on by itself."
)
_APP_NOT_RUNNING: Final = (
    "The headset answers, but the hl2ss app is not running on it. Start the app on the headset; "
    "recording goes on by itself."
)
_WRONG_SERVICE: Final = (
    "Something else than the hl2ss app answers at this address. Check the headset's address, and "
    "the first port."
)
_CLOSED_WHY: Final = {
    Port.PERSONAL_VIDEO: "the camera is off, used by another app or not permitted, or it does not "
    "take the size, rate or encoder asked for",
    Port.MICROPHONE: "the app lacks the permission for the microphone, cannot open it, or does not "
    "take the sound asked for",
    Port.SPATIAL_INPUT: "the app runs as a flat window, where there is no spatial input",
    Port.EXTENDED_EYE_TRACKER: "the eye tracker does not take the rate asked for; 90 a second "
    "needs a recent Windows on the headset",
}


def explain(port: Port, title: str, ending: Ending, remote: RemoteOutcome | None) -> Explanation:
    """Explain how it ended, given how remote configuration answers (None: not known)."""
    lost, refused = StreamState.LOST, StreamState.REFUSED
    connection = GapCause.CONNECTION_LOST
    match ending:
        case Ending.DAMAGED:
            words = f"{title}: damaged data came. It was put aside, and the stream begins anew."
            return Explanation(lost, GapCause.DAMAGED_PACKET, words)
        case Ending.CLOSED:
            words = f"{title}: the headset ended the connection. {_TRIED_AGAIN}"
            return Explanation(lost, connection, words)
        case Ending.STALLED:
            words = (
                f"{title}: the headset answers, but this stream fell silent. It is asked for anew."
            )
            return Explanation(StreamState.STALLED, GapCause.STALLED, words)
        case Ending.PATH_DEAD:
            return Explanation(lost, connection, f"{title}: {_ASLEEP}")
        case Ending.CAMERA_OFF:
            words = (
                f"{title}: the camera does not turn on. Another app may hold it, or the hl2ss app "
                "lacks the permission for the camera. Close other apps on the headset and look at "
                f"Settings, Privacy, Camera. {_TRIED_AGAIN}"
            )
            return Explanation(refused, GapCause.REFUSED, words)
        case Ending.STRANGE:
            return Explanation(refused, GapCause.REFUSED, f"{title}: {_WRONG_SERVICE}")
        case Ending.SILENT:
            return _silent(title, remote)
        case Ending.NO_ANSWER if remote in (RemoteOutcome.ANSWERS, RemoteOutcome.REFUSES):
            words = (
                f"{title}: the headset answers, but connections to this stream get lost. A "
                "firewall or too many waiting connections may be in the way; starting the app "
                f"again helps with the latter. {_TRIED_AGAIN}"
            )
            return Explanation(lost, connection, words)
        case Ending.NO_ANSWER:
            return Explanation(lost, connection, f"{title}: {_ASLEEP}")
        case Ending.REFUSED | Ending.CLOSED_AT_ONCE:
            return Explanation(refused, GapCause.REFUSED, _turned_away(port, title, ending, remote))


def _silent(title: str, remote: RemoteOutcome | None) -> Explanation:
    waiting = StreamState.WAITING
    match remote:
        case RemoteOutcome.ANSWERS:
            words = (
                f"{title}: the headset took the connection and sends nothing. Another program is "
                "probably receiving this stream: close it. Or the headset shows a question about "
                "a permission: answer it. The stream begins by itself."
            )
        case RemoteOutcome.REFUSES:
            words = f"{title}: {_APP_NOT_RUNNING}"
        case RemoteOutcome.STRANGE:
            return Explanation(StreamState.REFUSED, GapCause.REFUSED, f"{title}: {_WRONG_SERVICE}")
        case RemoteOutcome.NO_ANSWER:
            words = f"{title}: {_ASLEEP}"
        case _:
            words = (
                f"{title}: the headset takes connections and answers nothing, on any port. "
                "Another program may hold it, or the app hangs: start the app on the headset again."
            )
    return Explanation(waiting, GapCause.REFUSED, words)


def _turned_away(port: Port, title: str, ending: Ending, remote: RemoteOutcome | None) -> str:
    if remote is RemoteOutcome.STRANGE or (
        remote is RemoteOutcome.CLOSES and ending is Ending.CLOSED_AT_ONCE
    ):
        return f"{title}: {_WRONG_SERVICE}"
    if remote is RemoteOutcome.REFUSES:
        return f"{title}: {_APP_NOT_RUNNING}"
    if remote is RemoteOutcome.NO_ANSWER:
        return f"{title}: {_ASLEEP}"
    if ending is Ending.CLOSED_AT_ONCE:
        why = _CLOSED_WHY.get(port, "the app does not take what was asked for")
        return (
            f"{title}: the headset closed the connection without a word: {why}. Check the "
            f"settings of this stream. {_TRIED_AGAIN}"
        )
    if port.needs_research_mode:
        return (
            f"{title}: the app runs, but does not offer this stream: Research Mode is off. Turn it "
            "on in the headset's Device Portal (System, Research mode) and start the headset again."
        )
    permission = _PERMISSION.get(port, "a")
    return (
        f"{title}: the app runs, but does not offer this stream: it lacks the {permission} "
        f"permission. Allow it on the headset under Settings, Privacy, and start the app again."
    )
