"""Trace files are written: their names, their rotation, failing disks, and files of killed processes."""

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


def make_line(number: int) -> Line:
    return GapLine(
        v=1, ts="2023-11-14T22:13:20.000000Z", connection_id="c", direction="request", bytes=number, reason=""
    )


def numbers(path: Path) -> list[int]:
    return [json.loads(text)["bytes"] for text in path.read_text().splitlines()]


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def make_writer(tmp_path: Path, warnings: list[str]):
    def make_writer(**options: object) -> TraceWriter:
        return TraceWriter(tmp_path, node="web-1", warn=warnings.append, **options)  # type: ignore[arg-type]

    return make_writer


def test_file_is_hidden_until_it_is_complete(tmp_path: Path, make_writer) -> None:
    writer = make_writer()
    writer.add(make_line(1), at=AT)
    writer.flush(at=AT)
    name = f"kproxy-web-1-{os.getpid()}-1.jsonl"
    unfinished_path = tmp_path / FOLDER / f".{name}.part"
    assert numbers(unfinished_path) == [1]
    assert stat.S_IMODE(unfinished_path.stat().st_mode) == 0o600
    writer.close(at=AT)
    assert not unfinished_path.exists()
    assert numbers(tmp_path / FOLDER / name) == [1]


def test_new_file_is_started_each_hour(tmp_path: Path, make_writer) -> None:
    writer = make_writer()
    writer.add(make_line(1), at=AT)
    writer.add(make_line(2), at=AT + HOUR)
    writer.close(at=AT + HOUR)
    assert numbers(*(tmp_path / FOLDER).glob("*.jsonl")) == [1]
    assert numbers(*(tmp_path / "date=2023-11-14/hour=23").glob("*.jsonl")) == [2]


def test_new_file_is_started_above_the_size_limit(tmp_path: Path, make_writer) -> None:
    writer = make_writer(max_bytes=300)
    for number in range(10):
        writer.add(make_line(number), at=AT)
        writer.flush(at=AT)
    writer.close(at=AT)
    files = sorted((tmp_path / FOLDER).glob("*.jsonl"), key=lambda path: int(path.stem.rpartition("-")[2]))
    assert len(files) > 2
    assert [number for path in files for number in numbers(path)] == list(range(10))


def test_file_of_a_past_hour_is_closed_even_without_traffic(tmp_path: Path, make_writer) -> None:
    writer = make_writer()
    writer.add(make_line(1), at=AT)
    writer.tick(at=AT + HOUR)
    assert [path.suffix for path in (tmp_path / FOLDER).iterdir()] == [".jsonl"]


def test_writer_without_lines_leaves_no_file(tmp_path: Path, make_writer) -> None:
    make_writer().close(at=AT)
    assert list(tmp_path.iterdir()) == []


def test_truncated_compressed_file_is_readable_up_to_the_cut(tmp_path: Path, make_writer) -> None:
    writer = make_writer(compress=True)
    for number in range(40_000):
        writer.add(make_line(number), at=AT)
    writer.close(at=AT)
    [path] = (tmp_path / FOLDER).glob("*.jsonl.zst")
    data = path.read_bytes()
    assert data.count(b"\x28\xb5\x2f\xfd") > 2
    decompressed = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    assert len(decompressed.splitlines()) == 40_000
    partial_decompressor = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
    assert len(partial_decompressor.decompress(data[: len(data) // 2]).splitlines()) > 1000


def test_full_disk_is_reported_once_and_lines_are_counted(
    tmp_path: Path,
    make_writer,
    warnings: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = make_writer()
    writer.add(make_line(1), at=AT)
    writer.flush(at=AT)
    original_write = os.write
    bytes_left = [20]

    def write_until_full(fd: int, data: bytes) -> int:
        if not bytes_left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = original_write(fd, data[: bytes_left[0]])
        bytes_left[0] -= written
        return written

    monkeypatch.setattr(writer_module.os, "write", write_until_full)
    for number in (2, 3, 4):
        writer.add(make_line(number), at=AT + number)
        writer.flush(at=AT + number)
    assert writer.lost == 3
    assert len(warnings) == 1
    assert "No space left on device" in warnings[0]
    [path] = (tmp_path / FOLDER).glob("*.jsonl")
    assert numbers(path) == [1]  # the incomplete line was truncated

    monkeypatch.setattr(writer_module.os, "write", original_write)
    retry_at = AT + RETRY_NS + 10
    writer.add(make_line(5), at=retry_at)
    writer.close(at=retry_at)
    newest_path = max((tmp_path / FOLDER).glob("*.jsonl"), key=lambda path: path.stem)
    gap, last = [json.loads(text) for text in newest_path.read_text().splitlines()]
    assert gap["kind"] == "gap"
    assert gap["frames"] == 3
    assert last["bytes"] == 5
    assert len(warnings) == 2


def test_full_disk_is_retried_only_after_a_pause(
    make_writer,
    warnings: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def fail(fd: int, data: bytes) -> int:
        calls.append(fd)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writer_module.os, "write", fail)
    writer = make_writer()
    for number in range(100):
        writer.add(make_line(number), at=AT + number)
        writer.flush(at=AT + number)
    writer.add(make_line(100), at=AT + RETRY_NS + 1)
    writer.flush(at=AT + RETRY_NS + 1)
    assert len(calls) == 2
    assert writer.lost == 101
    assert len(warnings) == 1


class Disk:
    """The disk that the writer uses; it can be made full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self._write = os.write
        monkeypatch.setattr(writer_module.os, "write", self.write)

    def write(self, fd: int, data: bytes) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(fd, data)


@pytest.mark.parametrize("line_count", [0, 1])
def test_lost_lines_are_reported_at_the_end_if_there_is_room(
    tmp_path: Path, make_writer, monkeypatch: pytest.MonkeyPatch, line_count: int
) -> None:
    disk = Disk(monkeypatch)
    writer = make_writer()
    disk.is_full = True
    writer.add(make_line(1), at=AT)
    writer.flush(at=AT)
    disk.is_full = False
    for number in range(line_count):
        writer.add(make_line(number), at=AT + 1)
    writer.close(at=AT + 1)
    [path] = (tmp_path / FOLDER).glob("*.jsonl")
    gap, *others = [json.loads(text) for text in path.read_text().splitlines()]
    assert (gap["kind"], gap["frames"], len(others)) == ("gap", 1, line_count)


def test_clock_set_back_does_not_delay_the_next_attempt(make_writer, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    writer = make_writer()
    disk.is_full = True
    writer.add(make_line(1), at=AT)
    writer.flush(at=AT)
    disk.is_full = False
    writer.add(make_line(2), at=AT - HOUR)
    writer.flush(at=AT - HOUR)
    assert writer.lost == 0


def test_files_of_a_killed_process_are_renamed(tmp_path: Path, make_writer) -> None:
    dead_process = subprocess.Popen([sys.executable, "-c", "pass"])
    dead_process.wait()
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    (folder / f".kproxy-web-1-{dead_process.pid}-1.jsonl.part").write_text("{}\n")
    (folder / f".kproxy-web-1-{os.getpid()}-7.jsonl.part").write_text("{}\n")
    (folder / f".kproxy-web-2-{dead_process.pid}-1.jsonl.part").write_text("{}\n")
    make_writer()
    assert sorted(path.name for path in folder.iterdir()) == [
        f".kproxy-web-1-{os.getpid()}-7.jsonl.part",
        f".kproxy-web-2-{dead_process.pid}-1.jsonl.part",
        f"kproxy-web-1-{dead_process.pid}-1.jsonl",
    ]


def test_existing_file_is_not_overwritten(tmp_path: Path, make_writer) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    existing = folder / f"kproxy-web-1-{os.getpid()}-1.jsonl"
    existing.write_text("old\n")
    writer = make_writer()
    writer.add(make_line(1), at=AT)
    writer.close(at=AT)
    assert existing.read_text() == "old\n"
    assert numbers(folder / f"kproxy-web-1-{os.getpid()}-2.jsonl") == [1]


def test_directory_that_cannot_be_created_is_reported_and_retried(tmp_path: Path, warnings: list[str]) -> None:
    (tmp_path / "file").write_text("")
    state = TraceState()
    writer = TraceWriter(tmp_path / "file" / "below", node="n", state=state, warn=warnings.append)
    assert ["Not a directory" in line for line in warnings] == [True]
    assert state.failure == "Not a directory"
    writer.add(make_line(1), at=AT)
    writer.flush(at=AT)
    assert (len(warnings), state.lost_lines) == (1, 1)
    (tmp_path / "file").unlink()
    writer.flush(at=AT + RETRY_NS)  # even without traffic
    assert (state.failure, writer.lost, state.lost_lines) == (None, 0, 1)
    assert "being written again; 1 line is missing" in warnings[-1]
    writer.close(at=AT + RETRY_NS)
    assert reported_losses(tmp_path / "file" / "below") == [1]


def reported_losses(directory: Path) -> list[int]:
    """Return the number of lost lines in each gap line."""
    trace_lines = [json.loads(text) for path in trace_files(directory) for text in path.read_text().splitlines()]
    return [line["frames"] for line in trace_lines if line["reason"]]


@pytest.mark.parametrize("closes_immediately", [False, True])
def test_deleted_directory_is_recreated_and_lost_lines_are_reported(
    tmp_path: Path, warnings: list[str], closes_immediately: bool
) -> None:
    state = TraceState()
    directory = tmp_path / "trace"
    writer = TraceWriter(directory, node="n", state=state, warn=warnings.append)
    for number in (1, 2):
        writer.add(make_line(number), at=AT)
        writer.flush(at=AT)
    shutil.rmtree(directory)
    if not closes_immediately:
        writer.flush(at=AT + CHECK_NS)  # even without a new line
        assert reported_losses(directory) == [2]
        writer.add(make_line(3), at=AT + CHECK_NS)
    writer.close(at=AT + CHECK_NS)
    assert reported_losses(directory) == [2]
    assert [f"deleted: 2 lines are lost; the trace continues in {directory}" in line for line in warnings] == [True]
    assert (state.lost_lines, state.failure, writer.lost, writer.is_written) == (2, None, 0, True)


def test_gap_line_of_a_deleted_file_is_written_again(tmp_path: Path, warnings: list[str]) -> None:
    state = TraceState()
    directory = tmp_path / "trace"
    writer = TraceWriter(directory, node="n", state=state, warn=warnings.append)
    for number in (1, 2):
        writer.add(make_line(number), at=AT + number * CHECK_NS)
        writer.flush(at=AT + number * CHECK_NS)
        shutil.rmtree(directory)
    writer.close(at=AT + 3 * CHECK_NS)
    assert reported_losses(directory) == [2]
    assert state.lost_lines == 2


def test_trace_continues_at_its_path_after_a_move(tmp_path: Path, warnings: list[str]) -> None:
    state = TraceState()
    directory, new_directory = tmp_path / "trace", tmp_path / "elsewhere"
    writer = TraceWriter(directory, node="n", state=state, warn=warnings.append)
    writer.add(make_line(1), at=AT)
    writer.flush(at=AT)
    directory.rename(new_directory)
    writer.add(make_line(2), at=AT + CHECK_NS)
    writer.close(at=AT + CHECK_NS)
    assert numbers(*(new_directory / FOLDER).glob("*.jsonl")) == [1]
    assert numbers(*(directory / FOLDER).glob("*.jsonl")) == [2]
    assert [f"moved to {new_directory}" in line for line in warnings] == [True]
    assert (state.lost_lines, writer.moved_to) == (0, [new_directory / FOLDER])


def test_renamed_file_keeps_its_new_name(tmp_path: Path, make_writer) -> None:
    writer = make_writer()
    writer.add(make_line(1), at=AT)
    writer.flush(at=AT)
    [unfinished_path] = (tmp_path / FOLDER).iterdir()
    unfinished_path.rename(tmp_path / "mine")
    writer.close(at=AT)
    assert numbers(tmp_path / "mine") == [1]


def test_next_file_that_cannot_be_created_is_reported(
    tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = TraceState()
    writer = TraceWriter(tmp_path, node="n", max_bytes=1, state=state, warn=warnings.append)
    writer.add(make_line(1), at=AT)
    writer.flush(at=AT)

    def fail(*_arguments: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(writer_module.os, "open", fail)
    writer.add(make_line(2), at=AT + 1)
    writer.flush(at=AT + 1)
    assert (state.failure, state.lost_lines) == ("Read-only file system", 1)
    writer.close(at=AT + 1)
    assert (len(warnings), writer.is_written, writer.lost) == (1, True, 1)


def test_error_from_close_is_reported(make_writer, warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    writer = make_writer()
    writer.add(make_line(1), at=AT)
    writer.flush(at=AT)
    original_close = os.close

    def close_and_fail(fd: int) -> None:
        original_close(fd)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(writer_module.os, "close", close_and_fail)
    writer.close(at=AT)
    assert writer.lost == 1
    assert os.strerror(errno.EDQUOT) in warnings[0]


def test_file_that_cannot_be_renamed_is_reported(
    tmp_path: Path, make_writer, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer()
    writer.add(make_line(1), at=AT)
    writer.flush(at=AT)

    def fail(_self: Path, _target: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "rename", fail)
    writer.close(at=AT)
    assert ["keeps this name: Read-only file system" in line for line in warnings] == [True]
    assert numbers(*trace_files(tmp_path)) == [1]


def test_state_is_shared_with_a_child_process() -> None:
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
