"""benchmarks/same_lines.py shows the first difference between the outputs of two checkouts."""

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def same_lines(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("same_lines")


def fake_checkout(path: Path, program: str) -> Path:
    """Create a checkout whose kproxy only runs the script `program`."""
    (path / "kproxy").mkdir(parents=True)
    (path / "kproxy/__init__.py").write_text("")
    (path / "kproxy/__main__.py").write_text(program)
    return path


@pytest.mark.parametrize(
    ("old_program", "new_program", "expected"),
    [
        ("print('a'); print('b')", "print('a'); print('b')", ()),
        ("print('a'); print('b')", "print('a'); print('c')", ("line 2", "before: b", "now: c")),
        ("print('a'); print('b')", "print('a')", ("line 2", "before: b", "now: nothing")),
        ("print('a')", "print('a'); print('b')", ("line 2", "before: nothing", "now: b")),
        ("print('a')", "print('a'); raise SystemExit(1)", ("status 0 before, 1 now",)),
    ],
)
def test_first_differing_lines_are_shown(
    same_lines: Any, tmp_path: Path, old_program: str, new_program: str, expected: tuple[str, ...]
) -> None:
    checkouts = fake_checkout(tmp_path / "old", old_program), fake_checkout(tmp_path / "new", new_program)
    message = same_lines.difference(checkouts, ["--json"], tmp_path / "any.pcap")
    assert (message is None) == (not expected)
    assert all(expected_part in message for expected_part in expected)


def test_only_times_and_ports_of_a_live_trace_are_ignored(same_lines: Any) -> None:
    def remove_run_values(line: bytes) -> bytes:
        return bytes(same_lines._RUN_SPECIFIC.sub(b"", line))

    line = (
        b'{"kind":"response","ts":"2026-01-01T00:00:00Z","client":"127.0.0.1:4","latency_us":12,"message":"waited %s"}'
    )
    assert remove_run_values(line % b"3.5 ms") == remove_run_values(
        line.replace(b":12", b":13").replace(b"1:4", b"1:5") % b"71 ms"
    )
    assert remove_run_values(line % b"3 frames") != remove_run_values(line % b"4 frames")
    assert remove_run_values(b'{"size":1}') == b'{"size":1}'
