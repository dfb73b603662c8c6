"""Reading a source reports its progress."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from kproxy.browse.sources.capture_child import DissectedSource
from kproxy.browse.sources.compressed import UnpackedFile
from kproxy.browse.sources.source import SourcePhase
from tests.kproxy.browse.sessions import LinesSource


class GrowingSource(LinesSource):
    """A source that grows while it is read."""

    steps: tuple[tuple[int, int], ...] = ()

    def _progress(self) -> tuple[int, int]:
        self.steps, step = self.steps[1:], self.steps[0]
        return step


def test_progress_never_goes_back() -> None:
    source = GrowingSource(phase=SourcePhase.READING)
    source.steps = ((97, 100), (99, 100), (196, 200), (0, 0), (100, 100))
    assert [source.percent() for _ in range(5)] == [97, 99, 99, 99, 99]
    source.phase = SourcePhase.ENDED
    assert source.percent() is None


def test_progress_of_a_capture_is_unknown(tmp_path: Path) -> None:
    source = DissectedSource("a.pcap", [])
    source.store.append(b"{}\n{")  # type: ignore[attr-defined]
    assert source.percent() is None
    source.close()


@pytest.mark.slow
def test_remaining_unpacked_size_is_estimated(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl.gz"
    plain = b"".join(b'{"line": %d, "salt": "%s"}\n' % (n, os.urandom(40).hex().encode()) for n in range(150_000))
    path.write_bytes(gzip.compress(plain, 1))
    unpacked_file = UnpackedFile(os.open(path, os.O_RDONLY))
    assert unpacked_file.remaining_bytes == 0
    last_unpacked_bytes = 0
    while unpacked_file.step():
        unpacked_bytes = unpacked_file.spool.progress[1]
        assert unpacked_bytes > last_unpacked_bytes
        last_unpacked_bytes = unpacked_bytes
        assert 0.8 < (unpacked_bytes + unpacked_file.remaining_bytes) / len(plain) < 1.2
    assert unpacked_file.remaining_bytes == 0
    unpacked_file.close()
