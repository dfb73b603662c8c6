"""What a child process makes into lines: captures, and what is piped in."""

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
from tests.kproxy.browse.sources.source_viewer import following
from tests.peers.processes import until

CAPTURES = Path(__file__).parents[4] / "captures"
CAPTURE = CAPTURES / "metadata-retry-loop.pcap.gz"


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


async def test_a_capture_becomes_lines_with_frames_and_without_bodies() -> None:
    async with following(DissectedSource("it", [str(CAPTURE)])) as seen:
        await seen.until(lambda: seen.source.phase is SourcePhase.ENDED)
        await seen.until_lines(24)
        assert seen.read_back == seen.lines
        frames = [json.loads(line) for line in seen.lines if line.startswith(b'{"kind":"re')]
        assert all("frame" in frame and "body" not in frame for frame in frames)
        assert (seen.source.sentence, list(seen.source.messages)) == ("", [])


async def test_options_are_those_of_dissect_and_what_it_warns_of_is_a_message() -> None:
    async with following(DissectedSource("it", ["--port=1", "--", str(CAPTURE)])) as seen:
        await seen.until(lambda: seen.source.phase is SourcePhase.ENDED)
        assert (seen.lines, seen.source.sentence) == ([], "")
        warned, nothing = seen.source.messages
        assert "no Kafka connection on port 1" in warned
        assert nothing.startswith("nothing was analysed: ")


async def test_a_child_that_fails_says_why(tmp_path: Path) -> None:
    async with following(DissectedSource("it", [str(tmp_path / "none.pcap")])) as seen:
        await seen.until(lambda: seen.source.phase is SourcePhase.ENDED)
        assert seen.source.sentence == f"{tmp_path}/none.pcap: No such file or directory"


@pytest.mark.parametrize(
    "data", [gzip.decompress(CAPTURE.read_bytes()), (CAPTURES / "trace-1.jsonl").read_bytes()], ids=["pcap", "trace"]
)
async def test_what_is_piped_in_is_there_before_the_pipe_ends(data: bytes) -> None:
    reading, writing = os.pipe()
    source = DissectedSource("standard input", ["-"], stdin=reading)
    async with following(source) as seen:
        assert source.live
        os.write(writing, data[: len(data) * 3 // 4])
        await seen.until(lambda: seen.lines)
        before = len(seen.lines)
        assert source.live
        os.write(writing, data[len(data) * 3 // 4 :])
        os.close(writing)
        await seen.until(lambda: source.phase is SourcePhase.ENDED)
        await seen.until(lambda: len(seen.lines) > before)
        assert not source.live


async def test_who_pipes_in_sees_when_nobody_reads_any_more() -> None:
    reading, writing = os.pipe()
    async with following(DissectedSource("standard input", ["-"], stdin=reading)) as seen:
        os.write(writing, gzip.decompress(CAPTURE.read_bytes()))
        await seen.until_lines(1)
    with pytest.raises(BrokenPipeError):
        os.write(writing, b"more")
    os.close(writing)


async def test_a_full_disk_ends_it_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    async with following(DissectedSource("it", [str(CAPTURE)])) as seen:
        await seen.until(lambda: seen.source.phase is SourcePhase.ENDED)
        assert seen.source.sentence == "some data is missing: out of disk space (No space left on device)"


#: Looks at what is piped into it, and prints the process id of the child.
VIEWER = """
import asyncio, os, sys
from kproxy.browse.sources.capture_child import DissectedSource
async def main():
    source = DissectedSource("it", ["-"], stdin=os.dup(0))
    task = asyncio.ensure_future(source.run())
    while not any(source.store.new_lines()):
        await asyncio.sleep(0.01)
    print(open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read(), flush=True)
    await task
asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_child_of_a_killed_viewer_ends_when_more_comes() -> None:
    data = gzip.decompress(CAPTURE.read_bytes())
    viewer = subprocess.Popen([sys.executable, "-c", VIEWER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert viewer.stdin is not None
    assert viewer.stdout is not None
    with viewer, suppress(BrokenPipeError):
        viewer.stdin.write(data[: len(data) // 2])
        viewer.stdin.flush()
        child = int(viewer.stdout.readline())
        viewer.send_signal(signal.SIGKILL)
        viewer.wait()
        viewer.stdin.write(data[len(data) // 2 :])
        viewer.stdin.flush()
        until("the child ends", lambda: has_ended(child))


def has_ended(process: int) -> bool:
    try:
        return not Path(f"/proc/{process}/cmdline").read_bytes()  # not even init may have waited for it
    except FileNotFoundError:
        return True
