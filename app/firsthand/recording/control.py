"""The recorder's side of the conversation with the app: status, notes, stop, live taps.

Every connection has a thread of its own and answers what it is asked, so that an app that is
frozen or killed keeps nobody waiting but its own thread here.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from firsthand.children.channel import Channel, ChannelClosed, ChannelError, Listener, Message
from firsthand.recording.recorder import Recorder
from firsthand.recording.tap_server import serve_tap

_log = logging.getLogger(__name__)


class Control:
    """Serves connections until closed. ``on_stop`` is called, once, by whoever asks for the end,
    and the answer goes out when it returns."""

    def __init__(self, recorder: Recorder, listener: Listener, on_stop: Callable[[], None]) -> None:
        self._recorder = recorder
        self._listener = listener
        self._on_stop = on_stop
        self._closing = False
        self._lock = threading.Lock()
        self._channels: set[Channel] = set()
        self._attached = 0
        self._alone_since_s = time.monotonic()
        self.stop_answered: Final = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="control", daemon=True)
        self._thread.start()

    @property
    def alone_s(self) -> float:
        """For how long nobody has been attached."""
        with self._lock:
            return 0.0 if self._attached else time.monotonic() - self._alone_since_s

    def close(self) -> None:
        """Hang up on everybody. May be called twice."""
        self._closing = True
        self._listener.close()
        self._thread.join(5.0)
        with self._lock:
            channels = list(self._channels)
        for channel in channels:
            channel.close()

    def _accept(self) -> None:
        while not self._closing:
            channel = self._listener.accept(0.5)
            if channel is not None:
                with self._lock:
                    self._channels.add(channel)
                threading.Thread(
                    target=self._serve, args=(channel,), name="control-channel", daemon=True
                ).start()

    def _serve(self, channel: Channel) -> None:
        attached = True
        self._attach(1)
        try:
            while not self._closing:
                message = channel.receive(None)
                if message is None:
                    continue
                if message.header.get("ask") == "tap":
                    attached = False  # who only watches does not look after the recording
                    self._attach(-1)
                    serve_tap(channel, message.header, self._recorder)
                    return
                self._answer(channel, message)
        except ChannelClosed:
            pass
        except ChannelError as error:
            _log.warning("a connection was dropped: %s", error)
        except Exception:  # noqa: BLE001  (one connection must not take the others with it)
            _log.exception("a connection was dropped")
        finally:
            if attached:
                self._attach(-1)
            with self._lock:
                self._channels.discard(channel)
            channel.close()

    def _attach(self, change: int) -> None:
        with self._lock:
            self._attached += change
            self._alone_since_s = time.monotonic()

    def _answer(self, channel: Channel, message: Message) -> None:
        asked = message.header
        number = asked.get("number")
        match asked.get("ask"):
            case "status":
                answer = self._status()
            case "note":
                try:
                    self._recorder.note(str(asked["kind"]), dict(asked["about"]))
                    answer = {"good": True}
                except (KeyError, TypeError, ValueError) as error:
                    answer = {"wrong": f"The note cannot be stored: {error}."}
            case "stop":
                self._on_stop()
                try:
                    channel.send({"number": number, **self._status()})
                finally:
                    self.stop_answered.set()
                return
            case other:
                answer = {"wrong": f"The recorder does not know what {other!r} means."}
        channel.send({"number": number, **answer})

    def _status(self) -> dict[str, Any]:
        return {"status": self._recorder.status().to_json()}
