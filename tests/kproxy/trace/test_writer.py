"""Trace files: names, rotation, failing disks, files left by the dead."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from kproxy.trace import writer as writer_module
from kproxy.trace.lines import GapLine, Line
from kproxy.trace.reader import trace_files
from kproxy.trace.state import TraceState
from kproxy.trace.writer import CHECK_NS, HOUR, RETRY_NS, TraceWriter

AT = 1_700_000_000_000_000_000  # 2023-11-14T22:13:20Z
FOLDER = Path("date=2023-11-14/hour=22")


def line(number: int) -> Line:
    return GapLine(
        v=1, ts="2023-11-14T22:13:20.000000Z", connection_id="c", direction="request", bytes=number, reason=""
    )


def numbers(path: Path) -> list[int]:
    return [json.loads(text)["bytes"] for text in path.read_text().splitlines()]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def make(tmp_path: Path, said: list[str]):
    def make(**options: object) -> TraceWriter:
        return TraceWriter(tmp_path, node="web-1", warn=said.append, **options)  # type: ignore[arg-type]

    return make


def test_a_file_is_hidden_until_it_is_whole(tmp_path: Path, make) -> None:
    writer = make()
    writer.add(line(1), at=AT)
    writer.flush(at=AT)
    name = f"kproxy-web-1-{os.getpid()}-1.jsonl"
    part = tmp_path / FOLDER / f".{name}.part"
    assert numbers(part) == [1]
    assert stat.S_IMODE(part.stat().st_mode) == 0o600
    writer.close(at=AT)
    assert not part.exists()
    assert numbers(tmp_path / FOLDER / name) == [1]


def test_lines_of_another_hour_go_into_another_file(tmp_path: Path, make) -> None:
    writer = make()
    writer.add(line(1), at=AT)
    writer.add(line(2), at=AT + HOUR)
    writer.close(at=AT + HOUR)
    assert numbers(*(tmp_path / FOLDER).glob("*.jsonl")) == [1]
    assert numbers(*(tmp_path / "date=2023-11-14/hour=23").glob("*.jsonl")) == [2]


def test_a_file_that_has_grown_too_large_is_closed(tmp_path: Path, make) -> None:
    writer = make(max_bytes=300)
    for number in range(10):
        writer.add(line(number), at=AT)
        writer.flush(at=AT)
    writer.close(at=AT)
    files = sorted((tmp_path / FOLDER).glob("*.jsonl"), key=lambda path: int(path.stem.rpartition("-")[2]))
    assert len(files) > 2
    assert [number for path in files for number in numbers(path)] == list(range(10))


def test_an_idle_hour_ends_without_a_line(tmp_path: Path, make) -> None:
    writer = make()
    writer.add(line(1), at=AT)
    writer.tick(at=AT + HOUR)
    assert [path.suffix for path in (tmp_path / FOLDER).iterdir()] == [".jsonl"]


def test_nothing_written_leaves_no_file(tmp_path: Path, make) -> None:
    make().close(at=AT)
    assert list(tmp_path.iterdir()) == []


def test_compressed_files_read_up_to_where_they_were_cut(tmp_path: Path, make) -> None:
    writer = make(compress=True)
    for number in range(40_000):
        writer.add(line(number), at=AT)
    writer.close(at=AT)
    [path] = (tmp_path / FOLDER).glob("*.jsonl.zst")
    data = path.read_bytes()
    assert data.count(b"\x28\xb5\x2f\xfd") > 2
    whole = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    assert len(whole.splitlines()) == 40_000
    cut = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
    assert len(cut.decompress(data[: len(data) // 2]).splitlines()) > 1000


def test_a_full_disk_is_said_once_counted_and_survived(
    tmp_path: Path,
    make,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = make()
    writer.add(line(1), at=AT)
    writer.flush(at=AT)
    real = os.write
    left = [20]

    def full(fd: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(fd, data[: left[0]])
        left[0] -= written
        return written

    monkeypatch.setattr(writer_module.os, "write", full)
    for number in (2, 3, 4):
        writer.add(line(number), at=AT + number)
        writer.flush(at=AT + number)
    assert writer.lost == 3
    assert len(said) == 1
    assert "No space left on device" in said[0]
    [path] = (tmp_path / FOLDER).glob("*.jsonl")
    assert numbers(path) == [1]  # the torn line was cut off

    monkeypatch.setattr(writer_module.os, "write", real)
    later = AT + RETRY_NS + 10
    writer.add(line(5), at=later)
    writer.close(at=later)
    newest = max((tmp_path / FOLDER).glob("*.jsonl"), key=lambda path: path.stem)
    gap, last = [json.loads(text) for text in newest.read_text().splitlines()]
    assert gap["kind"] == "gap"
    assert gap["frames"] == 3
    assert last["bytes"] == 5
    assert len(said) == 2


def test_a_disk_that_stays_full_is_tried_again_only_now_and_then(
    make,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def full(fd: int, data: bytes) -> int:
        calls.append(fd)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writer_module.os, "write", full)
    writer = make()
    for number in range(100):
        writer.add(line(number), at=AT + number)
        writer.flush(at=AT + number)
    writer.add(line(100), at=AT + RETRY_NS + 1)
    writer.flush(at=AT + RETRY_NS + 1)
    assert len(calls) == 2
    assert writer.lost == 101
    assert len(said) == 1


class Disk:
    """Of the writer; it can be full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self._write = os.write
        monkeypatch.setattr(writer_module.os, "write", self.write)

    def write(self, fd: int, data: bytes) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(fd, data)


@pytest.mark.parametrize("lines", [0, 1])
def test_lost_lines_are_reported_at_the_end_if_there_is_room_by_then(
    tmp_path: Path, make, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    disk = Disk(monkeypatch)
    writer = make()
    disk.is_full = True
    writer.add(line(1), at=AT)
    writer.flush(at=AT)
    disk.is_full = False
    for number in range(lines):
        writer.add(line(number), at=AT + 1)
    writer.close(at=AT + 1)
    [path] = (tmp_path / FOLDER).glob("*.jsonl")
    gap, *others = [json.loads(text) for text in path.read_text().splitlines()]
    assert (gap["kind"], gap["frames"], len(others)) == ("gap", 1, lines)


def test_a_clock_set_back_does_not_put_off_the_next_attempt(make, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    writer = make()
    disk.is_full = True
    writer.add(line(1), at=AT)
    writer.flush(at=AT)
    disk.is_full = False
    writer.add(line(2), at=AT - HOUR)
    writer.flush(at=AT - HOUR)
    assert writer.lost == 0


def test_what_a_killed_process_left_gets_its_name(tmp_path: Path, make) -> None:
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    (folder / f".kproxy-web-1-{dead.pid}-1.jsonl.part").write_text("{}\n")
    (folder / f".kproxy-web-1-{os.getpid()}-7.jsonl.part").write_text("{}\n")
    (folder / f".kproxy-web-2-{dead.pid}-1.jsonl.part").write_text("{}\n")
    make()
    assert sorted(path.name for path in folder.iterdir()) == [
        f".kproxy-web-1-{os.getpid()}-7.jsonl.part",
        f".kproxy-web-2-{dead.pid}-1.jsonl.part",
        f"kproxy-web-1-{dead.pid}-1.jsonl",
    ]


def test_a_name_that_is_taken_is_not_written_over(tmp_path: Path, make) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    taken = folder / f"kproxy-web-1-{os.getpid()}-1.jsonl"
    taken.write_text("old\n")
    writer = make()
    writer.add(line(1), at=AT)
    writer.close(at=AT)
    assert taken.read_text() == "old\n"
    assert numbers(folder / f"kproxy-web-1-{os.getpid()}-2.jsonl") == [1]


def test_a_directory_that_cannot_be_made_is_reported_at_once_and_tried_again(tmp_path: Path, said: list[str]) -> None:
    (tmp_path / "file").write_text("")
    state = TraceState()
    writer = TraceWriter(tmp_path / "file" / "below", node="n", state=state, warn=said.append)
    assert ["Not a directory" in line for line in said] == [True]
    assert state.failure == "Not a directory"
    writer.add(line(1), at=AT)
    writer.flush(at=AT)
    assert (len(said), state.lost_lines) == (1, 1)
    (tmp_path / "file").unlink()
    writer.flush(at=AT + RETRY_NS)  # without traffic
    assert (state.failure, writer.lost, state.lost_lines) == (None, 0, 1)
    assert "being written again; 1 lines are missing" in said[-1]
    writer.close(at=AT + RETRY_NS)
    assert gaps(tmp_path / "file" / "below") == [1]


def gaps(directory: Path) -> list[int]:
    """The numbers of lines that gap lines report as lost."""
    lines = [json.loads(text) for path in trace_files(directory) for text in path.read_text().splitlines()]
    return [line["frames"] for line in lines if line["reason"]]


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_deleted_directory_is_created_again_and_what_it_had_is_lost(
    tmp_path: Path, said: list[str], at_the_end: bool
) -> None:
    state = TraceState()
    directory = tmp_path / "trace"
    writer = TraceWriter(directory, node="n", state=state, warn=said.append)
    for number in (1, 2):
        writer.add(line(number), at=AT)
        writer.flush(at=AT)
    shutil.rmtree(directory)
    if not at_the_end:
        writer.flush(at=AT + CHECK_NS)  # no line comes
        assert gaps(directory) == [2]
        writer.add(line(3), at=AT + CHECK_NS)
    writer.close(at=AT + CHECK_NS)
    assert gaps(directory) == [2]
    assert [f"deleted: 2 lines are lost; the trace continues in {directory}" in line for line in said] == [True]
    assert (state.lost_lines, state.failure, writer.lost, writer.is_written) == (2, None, 0, True)


def test_the_gap_line_of_a_deleted_file_is_written_again(tmp_path: Path, said: list[str]) -> None:
    state = TraceState()
    directory = tmp_path / "trace"
    writer = TraceWriter(directory, node="n", state=state, warn=said.append)
    for number in (1, 2):
        writer.add(line(number), at=AT + number * CHECK_NS)
        writer.flush(at=AT + number * CHECK_NS)
        shutil.rmtree(directory)
    writer.close(at=AT + 3 * CHECK_NS)
    assert gaps(directory) == [2]
    assert state.lost_lines == 2


def test_a_moved_directory_keeps_its_lines_and_the_trace_continues_where_it_was(
    tmp_path: Path, said: list[str]
) -> None:
    state = TraceState()
    directory, elsewhere = tmp_path / "trace", tmp_path / "elsewhere"
    writer = TraceWriter(directory, node="n", state=state, warn=said.append)
    writer.add(line(1), at=AT)
    writer.flush(at=AT)
    directory.rename(elsewhere)
    writer.add(line(2), at=AT + CHECK_NS)
    writer.close(at=AT + CHECK_NS)
    assert numbers(*(elsewhere / FOLDER).glob("*.jsonl")) == [1]
    assert numbers(*(directory / FOLDER).glob("*.jsonl")) == [2]
    assert [f"moved to {elsewhere}" in line for line in said] == [True]
    assert (state.lost_lines, writer.moved_to) == (0, [elsewhere / FOLDER])


def test_a_file_moved_under_another_name_keeps_that_name(tmp_path: Path, make) -> None:
    writer = make()
    writer.add(line(1), at=AT)
    writer.flush(at=AT)
    [part] = (tmp_path / FOLDER).iterdir()
    part.rename(tmp_path / "mine")
    writer.close(at=AT)
    assert numbers(tmp_path / "mine") == [1]


def test_a_next_file_that_cannot_be_created_is_reported(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = TraceState()
    writer = TraceWriter(tmp_path, node="n", max_bytes=1, state=state, warn=said.append)
    writer.add(line(1), at=AT)
    writer.flush(at=AT)

    def read_only(*_arguments: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(writer_module.os, "open", read_only)
    writer.add(line(2), at=AT + 1)
    writer.flush(at=AT + 1)
    assert (state.failure, state.lost_lines) == ("Read-only file system", 1)
    writer.close(at=AT + 1)
    assert (len(said), writer.is_written, writer.lost) == (1, True, 1)


def test_an_error_that_only_close_reports_is_no_success(make, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    writer = make()
    writer.add(line(1), at=AT)
    writer.flush(at=AT)
    real = os.close

    def over_quota(fd: int) -> None:
        real(fd)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(writer_module.os, "close", over_quota)
    writer.close(at=AT)
    assert writer.lost == 1
    assert os.strerror(errno.EDQUOT) in said[0]


def test_a_file_that_cannot_be_renamed_is_reported(
    tmp_path: Path, make, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make()
    writer.add(line(1), at=AT)
    writer.flush(at=AT)

    def refuse(_self: Path, _target: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "rename", refuse)
    writer.close(at=AT)
    assert ["keeps this name: Read-only file system" in line for line in said] == [True]
    assert numbers(*trace_files(tmp_path)) == [1]


def test_the_state_is_seen_by_another_process() -> None:
    state = TraceState()
    pid = os.fork()
    if not pid:
        state.add_lost(3)
        state.failure = "Kein Platz mehr: ä" * 200
        os._exit(0)
    os.waitpid(pid, 0)
    assert state.lost_lines == 3
    assert str(state.failure).startswith("Kein Platz mehr: ä")
    state.failure = None
    assert state.failure is None
