"""Words for an administrator, by elimination."""

import pytest

from firsthand.api import GapCause, StreamState
from firsthand_hl2ss.explain import Ending, explain
from firsthand_hl2ss.remote import RemoteOutcome
from firsthand_hl2ss.wire import STREAM_PORTS, Port

pytestmark = pytest.mark.unit

ANSWERS, REFUSES = RemoteOutcome.ANSWERS, RemoteOutcome.REFUSES
SILENT, CLOSES = RemoteOutcome.SILENT, RemoteOutcome.CLOSES
NO_ANSWER, STRANGE = RemoteOutcome.NO_ANSWER, RemoteOutcome.STRANGE


@pytest.mark.parametrize(
    ("port", "ending", "remote", "state", "words"),
    [
        (Port.PERSONAL_VIDEO, Ending.REFUSED, REFUSES, "refused", "app is not running"),
        (Port.PERSONAL_VIDEO, Ending.REFUSED, ANSWERS, "refused", "camera permission"),
        (Port.MICROPHONE, Ending.REFUSED, ANSWERS, "refused", "microphone permission"),
        (Port.SPATIAL_INPUT, Ending.REFUSED, ANSWERS, "refused", "eye tracker permission"),
        (Port.EXTENDED_EYE_TRACKER, Ending.REFUSED, ANSWERS, "refused", "eye tracker permission"),
        (Port.VLC_LEFT_LEFT, Ending.REFUSED, ANSWERS, "refused", "Research Mode is off"),
        (Port.IMU_GYROSCOPE, Ending.REFUSED, ANSWERS, "refused", "Research Mode is off"),
        (Port.MICROPHONE, Ending.REFUSED, NO_ANSWER, "refused", "asleep"),
        (Port.PERSONAL_VIDEO, Ending.CLOSED_AT_ONCE, ANSWERS, "refused", "camera is off"),
        (
            Port.MICROPHONE,
            Ending.CLOSED_AT_ONCE,
            ANSWERS,
            "refused",
            "permission for the microphone",
        ),
        (Port.SPATIAL_INPUT, Ending.CLOSED_AT_ONCE, ANSWERS, "refused", "flat window"),
        (Port.EXTENDED_EYE_TRACKER, Ending.CLOSED_AT_ONCE, ANSWERS, "refused", "rate"),
        (Port.DEPTH_AHAT, Ending.CLOSED_AT_ONCE, ANSWERS, "refused", "settings"),
        (Port.MICROPHONE, Ending.CLOSED_AT_ONCE, REFUSES, "refused", "app is not running"),
        (Port.MICROPHONE, Ending.CLOSED_AT_ONCE, STRANGE, "refused", "Something else"),
        (Port.MICROPHONE, Ending.CLOSED_AT_ONCE, CLOSES, "refused", "Something else"),
        (Port.MICROPHONE, Ending.STRANGE, ANSWERS, "refused", "Something else"),
        (Port.PERSONAL_VIDEO, Ending.CAMERA_OFF, ANSWERS, "refused", "does not turn on"),
        (Port.SPATIAL_INPUT, Ending.SILENT, ANSWERS, "waiting", "Another program"),
        (Port.SPATIAL_INPUT, Ending.SILENT, REFUSES, "waiting", "app is not running"),
        (Port.SPATIAL_INPUT, Ending.SILENT, NO_ANSWER, "waiting", "asleep"),
        (Port.SPATIAL_INPUT, Ending.SILENT, SILENT, "waiting", "hangs"),
        (Port.SPATIAL_INPUT, Ending.SILENT, STRANGE, "refused", "Something else"),
        (Port.MICROPHONE, Ending.NO_ANSWER, NO_ANSWER, "lost", "asleep"),
        (Port.MICROPHONE, Ending.NO_ANSWER, None, "lost", "Wi-Fi"),
        (Port.MICROPHONE, Ending.NO_ANSWER, ANSWERS, "lost", "firewall"),
        (Port.MICROPHONE, Ending.PATH_DEAD, NO_ANSWER, "lost", "asleep"),
        (Port.MICROPHONE, Ending.STALLED, ANSWERS, "stalled", "fell silent"),
        (Port.MICROPHONE, Ending.CLOSED, ANSWERS, "lost", "ended the connection"),
        (Port.MICROPHONE, Ending.DAMAGED, ANSWERS, "lost", "damaged"),
    ],
)
def test_the_reason_is_found_by_elimination(
    port: Port, ending: Ending, remote: RemoteOutcome | None, state: str, words: str
) -> None:
    found = explain(port, "The stream", ending, remote)
    assert found.state == state
    assert words in found.words


@pytest.mark.parametrize("remote", [*RemoteOutcome, None])
@pytest.mark.parametrize("ending", list(Ending))
def test_every_combination_has_whole_sentences(
    ending: Ending, remote: RemoteOutcome | None
) -> None:
    for port in STREAM_PORTS.values():
        found = explain(port, "The stream", ending, remote)
        assert found.words.startswith("The stream: ")
        assert found.words.endswith(".")
        assert found.state in set(StreamState) - {StreamState.LIVE, StreamState.ENDED}
        assert found.cause in set(GapCause)
