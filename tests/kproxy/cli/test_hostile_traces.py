"""Hostile traces: every command that reads traces prints a sentence or the readable lines."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kproxy.cli import main
from tests.kproxy.tui import hostile_files

COMMANDS = (
    ("dissect", "--json"),
    ("dissect", "--findings"),
    ("diff",),
    ("diff", "--json"),
    ("replay", "--speed", "max"),
)
LINE = (
    b'{"kind":"request","v":1,"ts":"2023-11-14T22:13:20.000000Z","connection_id":"c","client":"a:1","server":"b:2",'
    b'"api":"Metadata","api_key":3,"api_version":9,"correlation_id":1,"size":50,"offset":0}'
)
DEPTH = 100_000
BROKEN = {
    "nested arrays": LINE[:-1] + b',"body":' + b"[" * DEPTH + b"]" * DEPTH + b"}",
    "nested objects": LINE[:-1] + b',"body":' + b'{"a":' * DEPTH + b"1" + b"}" * DEPTH + b"}",
    "NaN": LINE[:-1] + b',"body":{"a":NaN}}',
    "invalid UTF-8": LINE.replace(b"Metadata", b"Meta\xff"),
    "surrogates": LINE[:-1] + b',"client_id":"\\ud800"}',
    "huge integer": LINE.replace(b"50", b"9" * 5000),
    "huge float": LINE.replace(b"50", b"1e999"),
    "wrong type": LINE.replace(b'"Metadata"', b"[]"),
    "duplicate keys": LINE[:-1] + b',"size":"x","size":3}',
    "null elements": LINE[:-1] + b',"topics":[null,1]}',
    "no object": b"[1]",
}


def run_command(words: tuple[str, ...], path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    extra_words = {"diff": [str(path)], "replay": ["127.0.0.1:1"]}.get(words[0], [])
    status = main([*words, str(path), *extra_words])
    out, err = capsys.readouterr()
    assert not re.search("internal error|Traceback|K007", out + err)
    return status, err


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("words", COMMANDS[:3:2])
def test_commands_skip_a_broken_line(
    name: str, words: tuple[str, ...], tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join((LINE, BROKEN[name], LINE, b"")))
    assert "1 of 3 lines could not be read" in run_command(words, path, capsys)[1]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(1, 40))])
def test_commands_survive_a_hostile_trace(seed: int, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(hostile_files.trace(Random(seed)))
    for words in COMMANDS:
        assert run_command(words, path, capsys)[0] in {0, 1, 2, 3, 5}
