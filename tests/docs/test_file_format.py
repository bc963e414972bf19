"""``docs/file-format.md`` is normative: code, real files and h5dump agree with it."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import pytest

import firsthand
from firsthand.api import Clock, PacketFlags
from firsthand.recording import layout
from firsthand.recording.layout import Field, StreamLayout
from firsthand.testing.recordings import make_recording, small_world

pytestmark = pytest.mark.unit
PAGE = Path(__file__).parents[2] / "docs" / "file-format.md"

TABLES: dict[str, tuple[Field, ...]] = {
    "index, with a payload": (
        layout.DEVICE_NS,
        layout.ARRIVAL_NS,
        layout.OFFSET,
        layout.LENGTH,
        layout.SEQ,
        layout.CRC32,
        layout.FLAGS,
    ),
    "index, with many rows per packet": (
        layout.DEVICE_NS,
        layout.ARRIVAL_NS,
        layout.ROW,
        layout.ROWS,
        layout.SEQ,
        layout.CRC32,
        layout.FLAGS,
    ),
    "samples, one row per packet": layout.HEADER_FIELDS,
    "gaps": layout.GAP_FIELDS,
    "clock pairs": layout.PAIR_FIELDS,
    "clock/epochs": layout.EPOCH_FIELDS,
    "states": layout.STATE_FIELDS,
    "health": layout.HEALTH_FIELDS,
    "notes/index": layout.NOTE_FIELDS,
}


def rows_under(title: str) -> list[tuple[str, ...]]:
    """The table below a heading of the page, without its own heading."""
    text = PAGE.read_text("utf-8")
    _, found, below = text.partition(f"\n### {title}\n")
    assert found, f"the page has no heading {title!r}"
    lines = below.split("\n#", maxsplit=1)[0].splitlines()
    cells = [
        tuple(cell.strip().strip("`") for cell in line.strip("|").split("|"))
        for line in lines
        if line.startswith("|")
    ]
    return cells[2:]


@pytest.mark.parametrize("title", TABLES)
def test_each_table_of_the_page_is_that_of_the_code(title: str) -> None:
    expected = [(f.name, f.dtype, f.unit, f.description) for f in TABLES[title]]
    assert rows_under(title) == expected


def test_the_marks_are_those_of_the_code() -> None:
    expected = [(str(int(flag)), flag.name) for flag in PacketFlags]
    assert [row[:2] for row in rows_under("flags")] == expected


def test_the_constants_are_those_of_the_code() -> None:
    text = PAGE.read_text("utf-8")
    assert f"`{layout.FORMAT}`" in text
    assert f"`format_version` is {layout.FORMAT_VERSION}" in text
    assert f"{layout.BLOB_CHUNK_BYTES // 1024} KiB" in text


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("format") / "s"
    world = small_world(0.5, streams=("pv", "eet", "si", "mic", "imu"), wall_step_ns=1_000_000)
    make_recording(folder, world)
    return folder / "raw.h5"


def everything(group: h5py.Group, path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in group:
        thing = group[name]
        found[f"{path}/{name}"] = thing
        if isinstance(thing, h5py.Group):
            found |= everything(thing, f"{path}/{name}")
    return found


def test_a_real_file_holds_what_the_page_lists_and_nothing_else(raw: Path) -> None:
    listed = {row[0] for row in rows_under("What is where")}
    with h5py.File(raw) as file:
        for path in everything(file):
            pattern = path
            pattern = re.sub(r"^/streams/[^/]+", "/streams/<name>", pattern)
            pattern = re.sub(r"^/calibration/[^/]+", "/calibration/<name>", pattern)
            if path.removeprefix("/clock/") in {clock.value for clock in Clock}:
                pattern = "/clock/<clock>"
            assert pattern in listed, f"{path} is not on the page"


def test_every_dataset_says_what_it_is_and_bears_a_checksum(raw: Path) -> None:
    with h5py.File(raw) as file:
        for path, thing in everything(file).items():
            if isinstance(thing, h5py.Dataset):
                assert thing.fletcher32, path
                assert bytes(thing.attrs["units"]), path
                assert bytes(thing.attrs["description"]), path


def test_root_and_stream_attributes_are_those_on_the_page(raw: Path) -> None:
    with h5py.File(raw) as file:
        assert set(file.attrs) == {row[0] for row in rows_under("Attributes of the root")}
        listed = {row[0] for row in rows_under("Attributes of a stream")}
        for group in file["streams"].values():
            assert set(group.attrs) == listed


def test_real_tables_have_the_fields_of_the_page(raw: Path) -> None:
    def names(dataset: h5py.Dataset) -> list[str]:
        return list(dataset.dtype.names or ())

    with h5py.File(raw) as file:
        streams = file["streams"]
        assert names(streams["pv/index"]) == [r[0] for r in rows_under("index, with a payload")]
        many = [r[0] for r in rows_under("index, with many rows per packet")]
        assert names(streams["imu/index"]) == many
        header = [r[0] for r in rows_under("samples, one row per packet")]
        assert names(streams["eet/samples"])[: len(header)] == header
        assert streams["pv/pose"].shape[1:] == (4, 4)
        assert names(file["clock/device"]) == [r[0] for r in rows_under("clock pairs")]


def test_the_reading_example_of_the_page_runs(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(raw.parent)
    names: dict[str, Any] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    assert names["picture"].startswith(b"\0\0\0\1")
    assert len(names["gaze"]) == 45
    with firsthand.open(raw, trusted=True) as recording:
        streams = recording.streams
        assert names["picture_s"] == pytest.approx(streams["pv"].times_s, abs=1e-6)
        # The wall clock's step of 1 ms is what one offset for all leaves in.
        assert names["gaze_s"] == pytest.approx(streams["eet"].times_s, abs=1.1e-3)


def test_h5dump_reads_the_file(raw: Path) -> None:
    h5dump = shutil.which("h5dump")
    if h5dump is None:
        pytest.skip("h5dump is not installed (Debian: hdf5-tools)")
    header = subprocess.run([h5dump, "-H", raw], capture_output=True, text=True, check=True)
    with h5py.File(raw) as file:
        for path in everything(file):
            assert f'"{path.rpartition("/")[2]}"' in header.stdout
    for dataset in ("/streams/pv/index", "/clock/device", "/session"):
        subprocess.run([h5dump, "-d", dataset, raw], capture_output=True, check=True)


def test_layouts_of_streams_are_as_told(raw: Path) -> None:
    world = small_world(0.1, streams=("pv", "eet", "si", "mic", "imu"))
    with h5py.File(raw) as file:
        for name, schema in world.schemas.items():
            wanted = StreamLayout(schema)
            assert set(file["streams"][name]) == set(wanted.datasets())
            if wanted.has_table:
                assert file["streams"][name][wanted.table].dtype == wanted.table_dtype
