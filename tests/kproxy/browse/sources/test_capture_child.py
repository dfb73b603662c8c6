"""A child process converts captures and piped data to lines."""

import gzip
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kproxy.browse.sources.capture_child import DissectedSource
from kproxy.browse.sources.source import SourcePhase
from tests.kproxy.browse.sources.source_viewer import run_source
from tests.peers.processes import until

CAPTURES = Path(__file__).parents[4] / "captures"
CAPTURE = CAPTURES / "metadata-retry-loop.pcap.gz"


@pytest.fixture(autouse=True)
def _use_temporary_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.mark.slow
async def test_capture_becomes_lines_with_frames_but_without_bodies() -> None:
    async with run_source(DissectedSource("it", [str(CAPTURE)])) as viewer:
        await viewer.until(lambda: viewer.source.phase is SourcePhase.ENDED)
        await viewer.until_lines(24)
        assert viewer.read_back == viewer.lines
        frames = [json.loads(line) for line in viewer.lines if line.startswith(b'{"kind":"re')]
        assert all("frame" in frame and "body" not in frame for frame in frames)
        assert (viewer.source.sentence, list(viewer.source.messages)) == ("", [])


@pytest.mark.slow
async def test_dissect_options_apply_and_warnings_become_messages() -> None:
    async with run_source(DissectedSource("it", ["--port=1", "--", str(CAPTURE)])) as viewer:
        await viewer.until(lambda: viewer.source.phase is SourcePhase.ENDED)
        assert (viewer.lines, viewer.source.sentence) == ([], "")
        warning, summary = viewer.source.messages
        assert "no Kafka connection on port 1" in warning
        assert summary.startswith("nothing was analysed: ")


@pytest.mark.slow
async def test_failure_of_the_child_is_reported(tmp_path: Path) -> None:
    async with run_source(DissectedSource("it", [str(tmp_path / "none.pcap")])) as viewer:
        await viewer.until(lambda: viewer.source.phase is SourcePhase.ENDED)
        assert viewer.source.sentence == f"{tmp_path}/none.pcap: No such file or directory"


@pytest.mark.slow
@pytest.mark.parametrize(
    "data", [gzip.decompress(CAPTURE.read_bytes()), (CAPTURES / "trace-1.jsonl").read_bytes()], ids=["pcap", "trace"]
)
async def test_piped_data_is_read_before_the_pipe_is_closed(data: bytes) -> None:
    read_end, write_end = os.pipe()
    source = DissectedSource("standard input", ["-"], stdin=read_end)
    async with run_source(source) as viewer:
        assert source.live
        os.write(write_end, data[: len(data) * 3 // 4])
        await viewer.until(lambda: viewer.lines)
        lines_so_far = len(viewer.lines)
        assert source.live
        os.write(write_end, data[len(data) * 3 // 4 :])
        os.close(write_end)
        await viewer.until(lambda: source.phase is SourcePhase.ENDED)
        await viewer.until(lambda: len(viewer.lines) > lines_so_far)
        assert not source.live


@pytest.mark.slow
async def test_writing_to_the_pipe_fails_once_the_source_is_closed() -> None:
    read_end, write_end = os.pipe()
    async with run_source(DissectedSource("standard input", ["-"], stdin=read_end)) as viewer:
        os.write(write_end, gzip.decompress(CAPTURE.read_bytes()))
        await viewer.until_lines(1)
    with pytest.raises(BrokenPipeError):
        os.write(write_end, b"more")
    os.close(write_end)


@pytest.mark.slow
async def test_full_disk_ends_the_source_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    async with run_source(DissectedSource("it", [str(CAPTURE)])) as viewer:
        await viewer.until(lambda: viewer.source.phase is SourcePhase.ENDED)
        assert viewer.source.sentence == "some data is missing: out of disk space (No space left on device)"


#: A script that reads the data piped into it and prints the process id of the child.
VIEWER = """
import asyncio, os, sys
from kproxy.browse.sources.capture_child import DissectedSource
async def main():
    source = DissectedSource("it", ["-"], stdin=os.dup(0))
    task = asyncio.ensure_future(source.run())
    while not any(source.store.take_new_lines()):
        await asyncio.sleep(0.01)
    print(open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read(), flush=True)
    await task
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_child_of_a_killed_viewer_exits_when_more_data_arrives() -> None:
    data = gzip.decompress(CAPTURE.read_bytes())
    viewer = subprocess.Popen([sys.executable, "-c", VIEWER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert viewer.stdin is not None
    assert viewer.stdout is not None
    with viewer, suppress(BrokenPipeError):
        viewer.stdin.write(data[: len(data) // 2])
        viewer.stdin.flush()
        child_pid = int(viewer.stdout.readline())
        viewer.send_signal(signal.SIGKILL)
        viewer.wait()
        viewer.stdin.write(data[len(data) // 2 :])
        viewer.stdin.flush()
        until("the child ends", lambda: has_ended(child_pid))


def has_ended(pid: int) -> bool:
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()  # it may still be a zombie
    except FileNotFoundError:
        return True
