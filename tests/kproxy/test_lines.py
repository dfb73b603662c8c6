"""Trace lines stay the same, byte by byte, unless a change is intended; see tests/kproxy/line_digests.py."""

import json
from pathlib import Path

import pytest

from tests.kproxy.line_digests import CAPTURES, EXPECTED, digests

expected = json.loads(EXPECTED.read_text())


def test_every_capture_has_digests() -> None:
    assert sorted(expected) == sorted(capture.name for capture in CAPTURES)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: capture.name.removesuffix(".pcap.gz"))
def test_lines_of_a_capture_are_unchanged(capture: Path) -> None:
    assert digests(capture) == expected[capture.name], (
        "compare them with benchmarks/same_lines.py; if the change is intended, run python -m tests.kproxy.line_digests"
    )
