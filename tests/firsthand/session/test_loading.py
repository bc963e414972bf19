"""Protocols: what is wrong is told with its line, and nothing is ever half loaded."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsthand.api import ProtocolError
from firsthand.session.loading import include_path, load_protocol
from firsthand.session.protocol import Record
from firsthand.session.source import BadFileError, Place, parse_yaml

pytestmark = pytest.mark.unit

GOOD = """\
format: firsthand-protocol
version: 1
name: small
title: A small study
phases:
  - id: show
    title: Show
    steps:
      - kind: consent
        id: consent
        title: Consent
        sheet: sheet.md
        scopes:
          - {id: video, data: video, required: true, text: Video may be recorded.}
      - kind: record
        id: task
        title: Task
        limit_s: 60
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sheet.md").write_text("# Sheet\n\nRead this.\n", encoding="utf-8")
    return tmp_path


def load(folder: Path, text: str | bytes) -> BadFileError:
    """The refusal of ``text``."""
    file = folder / "study.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadFileError) as caught:
        load_protocol(file)
    return caught.value


def test_a_small_protocol_is_frozen_data(folder: Path) -> None:
    (folder / "study.yaml").write_text(GOOD, encoding="utf-8")
    loaded = load_protocol(folder / "study.yaml")
    task = loaded.phase("show").steps[1]
    assert isinstance(task, Record)
    assert task.limit_s == 60
    with pytest.raises(AttributeError):
        task.title = "x"  # type: ignore[misc]  # that it cannot be set is the claim


def test_a_mark_that_editors_put_before_utf8_does_no_harm(folder: Path) -> None:
    (folder / "study.yaml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_protocol(folder / "study.yaml").content.name == "small"


WRONG = {
    "a misspelt key": ("limit_s: 60", "limits: 60", 18, "Did you mean 'limit_s'?"),
    "a misspelt kind": ("kind: record", "kind: recrod", 15, "Did you mean 'record'?"),
    "a misspelt data type": ("data: video", "data: vidio", 14, "Did you mean 'video'?"),
    "a doubled key": ("limit_s: 60", "title: Twice", 18, "stands twice; first in line 17"),
    "yes for true": ("required: true", "required: yes", 14, "Write true or false"),
    "a number for a text": ("title: Task", "title: 12", 17, 'Put quotes around it: "12"'),
    "a text for a number": ("limit_s: 60", "limit_s: long", 18, "must be a number"),
    "a number out of range": ("limit_s: 60", "limit_s: -1", 18, "greater than 0"),
    "a missing key": ("        title: Task\n", "", 15, "'title' is missing"),
    "a nothing": ("title: Task", "title:", 17, "must be a text"),
    "a tab": ("        limit_s: 60", "\tlimit_s: 60", 18, "tab"),
    "an anchor": ("title: Task", "title: &x Task", 17, "anchors"),
    "an alias": ("title: Task", "title: *x", 17, "aliases"),
    "a tag": ("title: Task", "title: !!python/name:os.system x", 17, "tag"),
    "a merge key": ("        limit_s: 60", "        <<: {a: 1}", 18, "merge keys"),
    "a second document": ("        limit_s: 60\n", "---\na: 1\n", 18, "second document"),
    "an unclosed quote": ("title: Task", "title: 'Task", 17, "not YAML"),
    "a text with a colon": ("title: Task", "title: Task: two", 17, "needs quotes"),
    "a control sign": ("title: Task", "title: Ta\x07sk", 17, "control sign"),
    "a doubled step": ("id: task", "id: consent", 15, "a second step is called 'consent'"),
    "an id that is no slug": ("id: task", "id: ../task", 16, "small letters, digits and _"),
    "another version": ("version: 1", "version: 2", 2, "less than or equal to 1"),
    "a missing sheet": ("sheet: sheet.md", "sheet: shet.md", 12, "Did you mean 'sheet.md'?"),
    "consent too late": ("kind: consent", "kind: instructions", 13, "'scopes'"),
    "an unknown pairing": (
        "    title: Show",
        "    title: Show\n    pairs_with: sho",
        8,
        "no phase 'sho'. Did you mean 'show'?",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_it_is_refused_with_line_and_hint_for(what: str, folder: Path) -> None:
    old, new, line, words = WRONG[what]
    assert GOOD.count(old) == 1
    error = load(folder, GOOD.replace(old, new))
    assert line in {problem.place.line for problem in error.problems}, error
    assert any(words in str(problem) for problem in error.problems), error
    assert f"line {error.problems[0].place.line}, column" in str(error)


def test_every_problem_is_told_and_not_the_first_alone(folder: Path) -> None:
    text = GOOD.replace("limit_s: 60", "limit_s: x").replace("title: A small", "titel: A small")
    error = load(folder, text)
    assert [p.place.line for p in error.problems] == [1, 4, 18]


def test_recording_before_consent_is_refused(folder: Path) -> None:
    head, steps = GOOD.split("    steps:\n")
    consent, record = steps.split("      - kind: record")
    error = load(folder, f"{head}    steps:\n      - kind: record{record}{consent}")
    assert "records before consent was asked" in str(error)


def test_a_sheet_without_a_title_is_told_of_with_its_own_line(folder: Path) -> None:
    (folder / "sheet.md").write_text("\nno title\n", encoding="utf-8")
    assert str(load(folder, GOOD).problems[0].place) == "sheet.md, line 2, column 1"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"# nothing\n",
        b"just a text\n",
        b"- a\n- list\n",
        b"\xff\xfea\x00",
        b"name: \xe9t\xe9\n",
        b"a: 1\n" + b"#" * (1 << 20),
        b"a: " + b"[" * 5000 + b"]" * 5000,
        b"{a: " * 3000,
        b"- " * 5000,
        b"? " * 5000,
        b"\n".join(b" " * n + b"a:" for n in range(900)),
        b"\n".join(b"k%d: v" % n for n in range(25_000)),
        b"a: 1e999\n",
    ],
    ids=lambda raw: repr(raw[:12]),
)
def test_hostile_files_are_refused_with_a_place_and_soon(raw: bytes, folder: Path) -> None:
    began = time.process_time()
    error = load(folder, raw)
    assert error.problems[0].place.line >= 1
    # A bomb costs minutes; the margin is for a busy machine.
    assert time.process_time() - began < 5


def test_a_bomb_of_aliases_is_refused_at_the_first_alias() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    with pytest.raises(BadFileError) as caught:
        parse_yaml("\n".join(lines), "bomb.yaml")
    assert caught.value.problems[0].place.line == 1


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_any_text_is_a_tree_or_a_refusal_with_a_place(text: str) -> None:
    refused = None
    try:
        parse_yaml(text, "any.yaml").data()
    except BadFileError as error:
        refused = error
    assert refused is None or refused.problems[0].place.line >= 1


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(GOOD) - 1), st.sampled_from([*"\t:-#&*!|>{}[]'\"\n x1,%@`", ""]))
def test_a_protocol_with_one_sign_changed_is_good_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, at: int, sign: str
) -> None:
    folder = tmp_path_factory.mktemp("one")
    (folder / "sheet.md").write_text("# Sheet\n", encoding="utf-8")
    file = folder / "study.yaml"
    file.write_text(GOOD[:at] + sign + GOOD[at + 1 :], encoding="utf-8")
    refused = None
    try:
        load_protocol(file)
    except ProtocolError as error:
        refused = error
    assert refused is None or "line " in str(refused)


ESCAPES = [
    "../secret.md", "a/../../secret.md", "/etc/passwd", "//host/share/x.md", "C:/x.md", "C:x.md",
    "\\\\host\\share", "..\\secret.md", "a\\..\\b", "a/./../../x", "sheet.md\0.md", "", ".", "..",
    "...", "~/x.md", "%2e%2e/x.md", "．．/x.md", "a//b", "a/ /b", "link.md", "linked/x.md",
    "file:///etc/passwd", "a/..", "./../x", " ../x", "../ x", "sheet.md/../../x", "NUL", "a:b.md",
]  # fmt: skip


@pytest.mark.parametrize("name", ESCAPES)
def test_an_include_never_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("# Secret\n", encoding="utf-8")
    if hasattr(os, "symlink"):
        (home / "link.md").symlink_to(tmp_path / "secret.md")
        (home / "linked").symlink_to(tmp_path)
    try:
        path = include_path(home, name, Place("study.yaml", 1, 1))
    except BadFileError:
        return
    assert path.is_relative_to(home.resolve())


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(["..", ".", "/", "\\", "a", "%2e", "\0", "C:", "~", "link", " ", "．"]),
        max_size=8,
    ).map("".join)
    | st.text(max_size=30)
)
def test_no_name_at_all_leads_out_of_the_folder(name: str) -> None:
    home = Path(__file__).parent
    try:
        path = include_path(home, name, Place("study.yaml", 1, 1))
    except BadFileError:
        return
    assert path.is_relative_to(home.resolve())
