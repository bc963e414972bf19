"""The story: who moves what where and when, what is said, and where the eyes go.

Everything is laid out once, from a seed, before the first picture; the rest of the scene looks
times up in it.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import numpy as np

from firsthand.api import SettingsError
from firsthand_hl2ss.simulator.scene_world import BY_ID, PLACES, START

SACCADE_S: Final = 0.045
SHORTEST_S: Final = 5.0
_INTRO_S: Final = 4.2
_OUTRO_S: Final = 4.6


class Scene(StrEnum):
    """The two stories that can be told."""

    DEMONSTRATION = "demonstration"
    """Somebody tidies a shelf by kind of thing, thinking aloud."""
    REPLICATION = "replication"
    """Somebody else asks an assistant where the things go, and puts them there."""


@dataclass(frozen=True, slots=True)
class Move:
    """One thing is taken from one place to another with one hand."""

    thing: str
    start: str
    stop: str
    hand: str
    reach_s: float
    grasp_s: float
    release_s: float
    rest_s: float


@dataclass(frozen=True, slots=True)
class Line:
    """Something the wearer says from ``start_s`` on."""

    text: str
    start_s: float


@dataclass(frozen=True, slots=True)
class Fixation:
    """The eyes rest on a thing, or on the spot above a place, for a while."""

    start_s: float
    stop_s: float
    target: str
    """A thing's id or a place's."""


@dataclass(frozen=True, slots=True)
class Segment:
    start_s: float
    stop_s: float
    kind: str
    """introduction, question, move, or closing."""
    words: str
    thing: str = ""
    place: str = ""


@dataclass(slots=True)
class Script:
    """A story with all its times."""

    scene: Scene
    duration_s: float
    start: dict[str, str]
    moves: list[Move] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    fixations: list[Fixation] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    blinks: list[tuple[float, float]] = field(default_factory=list)


_DEMONSTRATED: Final = (
    ("blue_box", "shelf_20b", "First the blue box. Boxes live on the top shelf, on the left."),
    ("red_book", "shelf_11b", "The red book stands beside the green one, so books are together."),
    ("orange_juice", "shelf_12a", "Orange juice goes next to the apple juice."),
    ("chia_seeds", "shelf_02a", "Chia seeds to the protein powder. I use them in one drink."),
    ("yellow_ball", "shelf_21b", "The ball goes up here, because it is only a toy."),
    ("pill_bottle", "shelf_01a", "And the pills stay low, where I can read the label."),
)
_REPLICATED: Final = (
    ("blue_box", "shelf_20b", "Where does the blue box go?", "Okay. Top shelf, on the left."),
    ("red_book", "shelf_11b", "Which place is for this red book?", "I see, beside the other book."),
    ("orange_juice", "shelf_12a", "And where should the orange juice stand?", "Next to the apple."),
    ("chia_seeds", "shelf_02a", "Where do the chia seeds belong?", "Right, down here then."),
)


class _Writer:
    """Lays a story out from left to right."""

    def __init__(self, scene: Scene, seed: int, duration_s: float | None) -> None:
        self.rng = np.random.default_rng([seed, 17 if scene is Scene.DEMONSTRATION else 23])
        self.script = Script(scene, 0.0, dict(START[scene.value]))
        self.wanted_s = duration_s
        self.where = dict(self.script.start)
        self.now = 0.0
        self.intentions: list[tuple[float, float, tuple[str, ...]]] = []

    def write(self) -> Script:
        asked = self.script.scene is Scene.REPLICATION
        period = 11.4 if asked else 6.4
        count = len(_REPLICATED if asked else _DEMONSTRATED)
        slack = 0.0
        if self.wanted_s is not None:
            room = self.wanted_s - _INTRO_S - _OUTRO_S
            count = max(0, int(room / period))
            slack = max(0.0, room - count * period) / max(1, count)
        self._introduce()
        for number in range(count):
            if asked:
                self._question(number, slack)
            else:
                self._move(number, slack)
        self._close()
        self._look()
        self._blink()
        return self.script

    def _introduce(self) -> None:
        asked = self.script.scene is Scene.REPLICATION
        self._say(
            0.7,
            "I want to find out how the things in this room are arranged."
            if asked
            else "I am going to tidy up this shelf, and put like things together.",
        )
        self._segment(0.0, _INTRO_S, "introduction", "looks at the table and the shelf")
        things = tuple(self.rng.permutation(sorted(self.where)))
        self.intentions.append((0.0, _INTRO_S, things))
        self.now = _INTRO_S

    def _choose(self, number: int, known: tuple[tuple[str, ...], ...]) -> tuple[str, str, str, str]:
        """Thing, place and words of a move: first the known ones, then any that are possible."""
        if number < len(known):
            thing, place, *words = known[number]
            return thing, place, words[0], words[-1]
        thing = str(self.rng.choice(sorted(self.where)))
        free = sorted(set(PLACES) - set(self.where.values()))
        place = str(self.rng.choice(free))
        name = BY_ID[thing].name
        return (
            thing,
            place,
            f"Now the {name}. It goes to {PLACES[place].words}."
            if self.script.scene is Scene.DEMONSTRATION
            else f"Where does the {name} go?",
            f"Okay, {PLACES[place].words}.",
        )

    def _act(self, at_s: float, thing: str, place: str) -> Move:
        source = self.where[thing]
        middle = PLACES[source].floor[0] + PLACES[place].floor[0]
        move = Move(
            thing,
            source,
            place,
            "right" if middle > -0.35 else "left",
            reach_s=at_s,
            grasp_s=at_s + 1.1,
            release_s=at_s + 3.3,
            rest_s=at_s + 4.3,
        )
        self.script.moves.append(move)
        self.where[thing] = place
        look = self.intentions
        look.append((at_s, move.grasp_s + 0.25, (thing,)))
        look.append((move.grasp_s + 0.25, move.release_s - 0.9, (place, place, thing)))
        look.append((move.release_s - 0.9, move.release_s + 0.5, (place,)))
        return move

    def _move(self, number: int, slack: float) -> None:
        thing, place, words, _ = self._choose(number, _DEMONSTRATED)
        start = self.now
        self._say(start + 0.25, words)
        others = tuple(self.rng.choice(sorted(self.where), 2))
        self.intentions.append((start, start + 1.0, (thing, thing, *others)))
        move = self._act(start + 1.0, thing, place)
        self.now = start + 6.4 + slack
        self.intentions.append((move.release_s + 0.5, self.now, (thing, *others)))
        self._move_segment(start, self.now, move)

    def _question(self, number: int, slack: float) -> None:
        thing, place, question, answer = self._choose(number, _REPLICATED)
        start = self.now
        others = tuple(self.rng.choice(sorted(self.where), 2))
        self.intentions.append((start, start + 4.2, (thing, thing, thing, *others)))
        self._say(start + 0.8, "Hey agent.")
        self._say(start + 2.1, question)
        self.intentions.append((start + 4.2, start + 6.4, (thing, place, *others)))
        name = BY_ID[thing].name
        self._segment(start, start + 6.3, "question", f"asks about the {name}", thing, place)
        self._say(start + 6.3, answer)
        move = self._act(start + 6.5, thing, place)
        self.now = start + 11.4 + slack
        self.intentions.append((move.release_s + 0.5, self.now, (thing, *others)))
        self._move_segment(start + 6.3, self.now, move)

    def _close(self) -> None:
        end = max(self.now + _OUTRO_S, self.wanted_s or 0.0)
        self._say(self.now + 0.4, "That looks right to me.")
        self._say(self.now + 2.4, "Task complete.")
        self._segment(self.now, end, "closing", "looks everything over and says that it is done")
        self.intentions.append((self.now, end, tuple(self.rng.permutation(sorted(self.where)))))
        self.script.duration_s = end

    def _say(self, at_s: float, text: str) -> None:
        self.script.lines.append(Line(text, round(at_s, 3)))

    def _segment(
        self, start: float, stop: float, kind: str, words: str, thing: str = "", place: str = ""
    ) -> None:
        self.script.segments.append(
            Segment(round(start, 3), round(stop, 3), kind, words, thing, place)
        )

    def _move_segment(self, start: float, stop: float, move: Move) -> None:
        words = f"puts the {BY_ID[move.thing].name} on the {PLACES[move.stop].words}"
        words = words.replace("on the the", "on the")
        self._segment(start, stop, "move", words, move.thing, move.stop)

    def _look(self) -> None:
        """Fixations of 0.3 to 1.6 s with saccades between, as the intentions ask for."""
        out: list[Fixation] = []
        for start, stop, targets in self.intentions:
            now, turn = start, 0
            while stop - now > 1e-6:
                first = targets[0]
                target = first if turn == 0 else str(targets[turn % len(targets)])
                length = float(self.rng.uniform(0.42, 1.25))
                if stop - now - length < 0.4:
                    length = stop - now
                if out and out[-1].target == target and now + length - out[-1].start_s <= 1.9:
                    out[-1] = replace(out[-1], stop_s=round(now + length, 4))
                else:
                    begin = now + (SACCADE_S if out else 0.0)
                    out.append(Fixation(round(begin, 4), round(now + length, 4), target))
                now += length
                turn += 1
        self.script.fixations = out

    def _blink(self) -> None:
        now = float(self.rng.uniform(1.5, 3.0))
        while now < self.script.duration_s:
            length = float(self.rng.uniform(0.11, 0.20))
            self.script.blinks.append((round(now, 4), round(now + length, 4)))
            now += length + float(self.rng.uniform(2.4, 5.2))


def write_script(scene: Scene, seed: int, duration_s: float | None = None) -> Script:
    """Lay a story out: as long as it takes, or ``duration_s`` with fewer or more things moved.

    Raises ``SettingsError`` for a duration that leaves no room for any story.
    """
    if duration_s is not None and duration_s < SHORTEST_S:
        raise SettingsError(
            f"A scene of {duration_s:g} s is too short to show anything.",
            try_this=f"Ask for {SHORTEST_S:g} s or more.",
        )
    return _Writer(scene, seed, duration_s).write()
