"""A command reads all traces and captures of a directory as one recording."""

from pathlib import Path

import pytest

from kproxy.capture.recordings import read_recording
from kproxy.errors import UserError
from kproxy.trace.lines import Detail, RequestLine

CAPTURES = Path(__file__).parents[3] / "captures"


def test_captures_with_the_same_name_have_distinct_connections(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.pcap.gz").write_bytes((CAPTURES / "metadata-v1-throttle-first.pcap.gz").read_bytes())
    (tmp_path / "t.jsonl").write_bytes((CAPTURES / "trace-1.jsonl").read_bytes())
    lines = list(read_recording(tmp_path, Detail.RAW, pytest.fail))
    requests = [line for line in lines if isinstance(line, RequestLine) and line.connection_id.startswith("x-")]
    assert sorted({line.connection_id for line in requests}) == ["x-0", "x-1", "x-2", "x-3"]
    assert all(line.frame for line in requests)
    assert len({line.connection_id for line in lines}) == 5


def test_directory_without_recordings_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no trace"):
        list(read_recording(tmp_path, Detail.FULL, pytest.fail))
