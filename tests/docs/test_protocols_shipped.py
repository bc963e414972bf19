"""The shipped protocol, its sheets and its tasks hold what the method asks for."""

import re
from pathlib import Path

import pytest

from firsthand.paths import study_protocols_dir
from firsthand.session.loading import LoadedProtocol, load_protocol
from firsthand.session.protocol import Checklist, Consent, Form, Instructions, Record
from firsthand.session.tasks import Variant

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def mica() -> LoadedProtocol:
    return load_protocol(study_protocols_dir() / "mica.yaml")


def item(mica: LoadedProtocol, phase: str, name: str) -> str:
    """What the phase's sheet says under a marker, in one line and small letters."""
    step = next(s for s in mica.phase(phase).steps if isinstance(s, Instructions))
    text = mica.sheets[step.sheet].items[name]
    return re.sub(r"[\s*>]+", " ", text).lower()


PHASE_1 = {
    "M-011": ["showing a task", "follow them carefully"],
    "M-012": ["headset", "works", "know the task"],
    "M-013": ["say out loud which task", "only then begin", "for example", '"i am going to'],
    "M-014": ["thinking aloud", "two examples", "as if you were showing", "helps us to write"],
    "M-015": ["as you would on any ordinary day", "do not change your usual way"],
    "M-016": ["goes wrong", "differently from how you usually", "say so aloud"],
    "M-017": ["look at a thing", "gesture", "pointing"],
    "M-018": ["important", "centre of the visor", "well below the visor are not recorded"],
    "M-019": ['say "task complete"', "tell the administrator", "wait until", "before you take the"],
    "M-020": ["5 questions", "typing", "images from your own", "(why)", "(what)", "(how)"],
    "M-021": ["thank you", "uncomfortable or tired", "stop at once", "compensation stays"],
    "M-022": ["second sheet"],
}  # fmt: skip
PHASE_2 = {
    "M-023": ["ai assistant", "somebody else has done", "nothing to do with", "different pattern"],
    "M-024": ["looking at just before you ask"],
    "M-025": ["as you would in real life", "help"],
    "M-026": ['"agent"', '"hey agent"'],
    "M-027": ["important", "before you say the word", "centre of the visor", "well below"],
    "M-028": ["tells you when it is ready", "say the word again", "after it has acknowledged"],
    "M-029": ["### a routine", "### organising", "### decluttering"],
    "M-030": ["how can i help?", "go ahead.", "listening. what do you need?"],
    "M-031": [
        "clear and specific", "follow-up", "confuse you", "as far as you can",
        "do not get stuck", "own judgement", "fine if you do not finish", '"task complete"',
        "certain thing or a group", "looking at them or by a gesture",
    ],
    "M-032": ["thank you", "uncomfortable or tired", "compensation stays", "second sheet"],
}  # fmt: skip


@pytest.mark.parametrize("name", PHASE_1)
def test_the_demonstrator_is_told(mica: LoadedProtocol, name: str) -> None:
    said = item(mica, "demonstration", name)
    assert [words for words in PHASE_1[name] if words not in said] == []


@pytest.mark.parametrize("name", PHASE_2)
def test_the_second_participant_is_told(mica: LoadedProtocol, name: str) -> None:
    said = item(mica, "replication", name)
    assert [words for words in PHASE_2[name] if words not in said] == []


def test_each_example_goes_from_a_look_to_a_follow_up_and_one_is_told_no(
    mica: LoadedProtocol,
) -> None:
    text = mica.sheets["mica/replication.md"].items["M-029"]
    dialogues = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    acknowledgements = mica.acknowledgements
    assert acknowledgements is not None
    ready = {acknowledgements.offer, acknowledgements.go_ahead, acknowledgements.presence}
    assert len(dialogues) == 3
    for dialogue in dialogues:
        lines = re.findall(r"^\d+\. (\w+): (.*)$", dialogue, flags=re.MULTILINE)
        who = [speaker for speaker, _ in lines]
        assert who == [
            "Look", "You", "Assistant", "You", "Assistant", "Do", "You", "Assistant", "You",
            "Assistant",
        ]  # fmt: skip
        for call in (1, 6):
            assert lines[call][1].strip('".').lower() in {"agent", "hey agent"}
            assert lines[call + 1][1].strip('"') in ready
        assert lines[3][1].endswith('?"')
        assert lines[8][1].endswith('?"')
    assert sum('Assistant: "No, ' in dialogue for dialogue in dialogues) == 1


def test_the_acknowledgements_come_in_three_flavours(mica: LoadedProtocol) -> None:
    said = mica.acknowledgements
    assert said is not None
    assert said.offer.endswith("help?")
    assert len(said.go_ahead.split()) == 2
    assert said.presence.count(".") == 1
    assert said.presence.endswith("?")


def test_the_catalogue_has_three_families_with_all_their_variants(mica: LoadedProtocol) -> None:
    assert mica.catalogue is not None
    assert {f.id: {v.id for v in f.variants} for f in mica.catalogue.families} == {
        "organize_room": {"own_preference", "by_type", "by_color"},
        "shopping": {"own_needs", "birdhouse", "toddler_party"},
        "morning_routine": {"juice_and_supplements", "pill_arrangement"},
    }


def variants(mica: LoadedProtocol) -> list[Variant]:
    assert mica.catalogue is not None
    return [variant for family in mica.catalogue.families for variant in family.variants]


def test_every_task_leaves_choices_to_the_participant(mica: LoadedProtocol) -> None:
    assert [v.id for v in variants(mica) if "up to you" not in v.task] == []


def test_the_second_participant_gets_one_broad_sentence_that_gives_nothing_away(
    mica: LoadedProtocol,
) -> None:
    assert mica.catalogue is not None
    for family in mica.catalogue.families:
        assert family.goal.count(".") == 1
        assert "assistant" in family.goal
        for variant in family.variants:
            assert variant.title.lower() not in family.goal.lower()


def test_scoops_differ_between_sessions_and_are_the_same_for_the_same_one(
    mica: LoadedProtocol,
) -> None:
    assert mica.catalogue is not None
    drawn = [
        mica.catalogue.task("morning_routine/juice_and_supplements", f"session {n}")
        for n in range(20)
    ]
    assert len({tuple(task.amounts.values()) for task in drawn}) > 5
    again = mica.catalogue.task("morning_routine/juice_and_supplements", "session 3")
    assert again == drawn[3]
    assert f"Add {again.amounts['protein']} scoops" in again.sheet.replace("\n", " ")


def test_the_second_phase_is_given_the_first_and_both_ask_for_consent(
    mica: LoadedProtocol,
) -> None:
    assert mica.phase("replication").pairs_with == "demonstration"
    for name in ("demonstration", "replication"):
        steps = mica.phase(name).steps
        assert isinstance(steps[0], Consent)
        assert any(isinstance(s, Record) and s.keyword == "task complete" for s in steps)


def test_what_was_varied_is_asked_of_the_administrator(mica: LoadedProtocol) -> None:
    lists = [s for p in mica.content.phases for s in p.steps if isinstance(s, Checklist)]
    assert len(lists) == 2
    for each in lists:
        assert any("things, users, layout" in point for point in each.items)


def test_five_questions_follow_the_demonstration_about_why_what_and_how(
    mica: LoadedProtocol,
) -> None:
    form = next(s for s in mica.phase("demonstration").steps if isinstance(s, Form))
    asked = [field.ask.split()[0].lower() for field in form.fields]
    assert len(asked) == 5
    assert {"why", "what", "how"} <= set(asked)
    assert all(field.kind == "text" and field.required for field in form.fields)


def test_a_sheet_that_changes_is_another_version_of_the_protocol(
    mica: LoadedProtocol, tmp_path: Path
) -> None:
    home = study_protocols_dir()
    for name in mica.files:
        copy = tmp_path / name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes((home / name).read_bytes())
    assert load_protocol(tmp_path / "mica.yaml").hash == mica.hash
    sheet = tmp_path / "mica" / "demonstration.md"
    sheet.write_text(sheet.read_text(encoding="utf-8") + "\nOne more line.\n", encoding="utf-8")
    changed = load_protocol(tmp_path / "mica.yaml")
    assert changed.hash != mica.hash
    assert (
        changed.sheets["mica/demonstration.md"].version
        != mica.sheets["mica/demonstration.md"].version
    )
    assert changed.sheets["mica/consent.md"] == mica.sheets["mica/consent.md"]


def test_comments_and_layout_do_not_make_another_version(
    mica: LoadedProtocol, tmp_path: Path
) -> None:
    for name in mica.files:
        copy = tmp_path / name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes((study_protocols_dir() / name).read_bytes())
    file = tmp_path / "mica.yaml"
    file.write_text("# mine\n\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    assert load_protocol(file).hash == mica.hash
