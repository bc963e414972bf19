"""Files made to mislead or to break are refused before anything is read from them."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

import firsthand
from firsthand.api import DamagedError, RecordingError
from firsthand.children.process import start
from firsthand.recording.gate import inspect_file
from firsthand.recording.gate_walk import Refused, look_over
from firsthand.testing.recordings import make_recording

pytestmark = pytest.mark.process
SECRET = b"the canary that must not sing"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("good") / "s"
    make_recording(folder, seconds=0.5)
    return (folder / "raw.h5").read_bytes()


@pytest.fixture
def path(tmp_path: Path, good: bytes) -> Path:
    made = tmp_path / "foreign.h5"
    made.write_bytes(good)
    return made


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    canary = tmp_path / "secret"
    canary.write_bytes(SECRET * 100)
    return canary


def test_a_good_file_passes_and_is_opened(path: Path) -> None:
    seen = inspect_file(path)
    assert set(seen.streams) == {"pv", "eet", "si", "mic"}
    assert seen.bytes == path.stat().st_size
    with firsthand.open(path) as recording:
        assert len(recording.video) == 15


def external_link(file: h5py.File, secret: Path) -> None:
    file["streams/pv/elsewhere"] = h5py.ExternalLink(str(secret), "/")


def soft_link(file: h5py.File, secret: Path) -> None:
    file["streams/loop"] = h5py.SoftLink("/streams")


def hard_cycle(file: h5py.File, secret: Path) -> None:
    file["streams/pv/again"] = file["streams"]


def external_storage(file: h5py.File, secret: Path) -> None:
    del file["streams/pv/blob"]
    file["streams/pv"].create_dataset(
        "blob", shape=(100,), dtype="u1", external=[(str(secret), 0, 100)]
    )


def virtual(file: h5py.File, secret: Path) -> None:
    layout = h5py.VirtualLayout((100,), "u1")
    layout[:] = h5py.VirtualSource(str(secret), "x", (100,))
    file["streams/pv"].create_virtual_dataset("more", layout)


def giant(file: h5py.File, secret: Path) -> None:
    del file["streams/pv/blob"]
    file["streams/pv"].create_dataset(
        "blob", shape=(2**40,), maxshape=(None,), dtype="u1", chunks=(262144,), fletcher32=True
    )


def packed(file: h5py.File, secret: Path) -> None:
    file["streams/pv"].create_dataset(
        "bomb", data=np.zeros(10_000_000, "u1"), chunks=(1_000_000,), compression="gzip"
    )


def contiguous(file: h5py.File, secret: Path) -> None:
    file["plain"] = np.zeros(10)


def variable_text(file: h5py.File, secret: Path) -> None:
    file.attrs["words"] = "of any length"


def reference(file: h5py.File, secret: Path) -> None:
    file.create_dataset(
        "refs", data=[file.ref], dtype=h5py.ref_dtype, chunks=(1,), maxshape=(None,)
    )


def named_type(file: h5py.File, secret: Path) -> None:
    file["type"] = np.dtype("f8")


def other_schema(file: h5py.File, secret: Path) -> None:
    file["streams/pv"].attrs["schema"] = file["streams/eet"].attrs["schema"]


def shorter_part(file: h5py.File, secret: Path) -> None:
    file["streams/pv/pose"].resize(3, axis=0)


def lacking_part(file: h5py.File, secret: Path) -> None:
    del file["streams/si/gaps"]


def another_format(file: h5py.File, secret: Path) -> None:
    file.attrs["format"] = np.bytes_(b"something")


def deep(file: h5py.File, secret: Path) -> None:
    file.create_group("/".join("abcdefgh"))


TRICKS: list[Callable[[h5py.File, Path], None]] = [
    external_link,
    soft_link,
    hard_cycle,
    external_storage,
    virtual,
    giant,
    packed,
    contiguous,
    variable_text,
    reference,
    named_type,
    other_schema,
    shorter_part,
    lacking_part,
    another_format,
    deep,
]


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__)
def test_a_file_with_a_trick_in_it_is_refused_with_words(
    path: Path, secret: Path, trick: Callable[[h5py.File, Path], None]
) -> None:
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        trick(file, secret)
    with pytest.raises(Refused) as refused:
        look_over(path)
    words = str(refused.value)
    assert words.endswith(".")
    assert "canary" not in words


def test_what_the_child_refuses_nobody_opens(path: Path, secret: Path) -> None:
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        external_storage(file, secret)
    with pytest.raises(DamagedError, match=r"was not opened: .*lead out of the file"):
        firsthand.open(path)


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.5, 0.999])
def test_a_file_that_was_cut_off_is_refused(path: Path, good: bytes, share: float) -> None:
    path.write_bytes(good[: int(len(good) * share)])
    with pytest.raises(Refused):
        look_over(path)


@pytest.mark.parametrize("content", [b"", b"no HDF5", b"\x89HDF\r\n\x1a\n", os.urandom(5000)])
def test_what_is_no_hdf5_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.h5"
    path.write_bytes(content)
    with pytest.raises(Refused):
        look_over(path)


def test_files_of_other_programs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        file["x"] = np.arange(10)
    with pytest.raises(DamagedError, match="not written by Firsthand"):
        inspect_file(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no file"):
        inspect_file(tmp_path / "nothing.h5")


def test_a_child_that_takes_too_long_or_too_much_is_a_refusal(path: Path) -> None:
    with pytest.raises(DamagedError, match="time or memory"):
        inspect_file(path, deadline_s=0.01)
    with pytest.raises(DamagedError, match="time or memory"):
        inspect_file(path, memory_bytes=1_000_000)


MUTATE = """
import random, sys
from pathlib import Path
import numpy as np
import firsthand
from firsthand.api import FirsthandError
from firsthand.recording.gate_walk import Refused, look_over

good, place = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
chosen = random.Random(7)
refused = noticed = same = 0
whole = None
for number in range(-1, 250):
    raw = bytearray(good)
    if number >= 0:
        for _ in range(chosen.choice((1, 1, 4, 40))):
            # Metadata lie in front, between and behind the data: half of the hits go to the front.
            at = chosen.randrange(len(raw) if chosen.random() < 0.5 else 20_000)
            raw[at] ^= 1 << chosen.randrange(8)
    place.write_bytes(raw)
    try:
        look_over(place)
    except Refused:
        refused += 1
        continue
    try:
        with firsthand.open(place, trusted=True) as recording:
            content = [
                (p.stream, p.seq, p.device_ns, p.fields, bytes(p.payload))
                for name in recording.streams
                for p in recording.packets(name)
            ]
    except FirsthandError:
        noticed += 1
        continue
    if whole is None:
        whole = content
    assert content == whole, f"mutant {number} gave other packets without a word"
    same += 1
print(refused, noticed, same)
assert refused + noticed > 100
"""


def test_no_mutant_breaks_the_reader_or_passes_as_something_else(
    tmp_path: Path, good: bytes
) -> None:
    """In a child, so that a broken library would be seen as such."""
    (tmp_path / "good").write_bytes(good)
    (tmp_path / "mutate.py").write_text(MUTATE)
    child = start(
        "mutate",
        [str(tmp_path / "good"), str(tmp_path / "mutant.h5")],
        environment={"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        log=tmp_path / "log",
    )
    with child:
        code = child.wait(60.0)
    assert code == 0, (tmp_path / "log").read_text()
