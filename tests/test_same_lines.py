"""benchmarks/same_lines.py: two checkouts that print the same, or not."""

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def same_lines(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("same_lines")


def checkout(path: Path, program: str) -> Path:
    """A kproxy that does nothing else."""
    (path / "kproxy").mkdir(parents=True)
    (path / "kproxy/__init__.py").write_text("")
    (path / "kproxy/__main__.py").write_text(program)
    return path


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [
        ("print('a'); print('b')", "print('a'); print('b')", ()),
        ("print('a'); print('b')", "print('a'); print('c')", ("line 2", "before: b", "now: c")),
        ("print('a'); print('b')", "print('a')", ("line 2", "before: b", "now: nothing")),
        ("print('a')", "print('a'); print('b')", ("line 2", "before: nothing", "now: b")),
        ("print('a')", "print('a'); raise SystemExit(1)", ("status 0 before, 1 now",)),
    ],
)
def test_the_first_lines_that_differ_are_shown(
    same_lines: Any, tmp_path: Path, before: str, now: str, shown: tuple[str, ...]
) -> None:
    checkouts = checkout(tmp_path / "old", before), checkout(tmp_path / "new", now)
    found = same_lines.difference(checkouts, ["--json"], tmp_path / "any.pcap")
    assert (found is None) == (not shown)
    assert all(each in found for each in shown)


def test_only_times_and_ports_of_a_live_trace_are_left_out(same_lines: Any) -> None:
    def without(line: bytes) -> bytes:
        return bytes(same_lines._OF_THE_RUN.sub(b"", line))

    line = (
        b'{"kind":"response","ts":"2026-01-01T00:00:00Z","client":"127.0.0.1:4","latency_us":12,"message":"waited %s"}'
    )
    assert without(line % b"3.5 ms") == without(line.replace(b":12", b":13").replace(b"1:4", b"1:5") % b"71 ms")
    assert without(line % b"3 frames") != without(line % b"4 frames")
    assert without(b'{"size":1}') == b'{"size":1}'
