"""Hostile traces and captures, generated with a seeded random generator."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from kproxy.trace.encoding import append_line
from kproxy.trace.lines import Detail
from tests.kproxy.capture_results import DATA, lines_of

CAPTURES = Path(__file__).parents[3] / "captures"
#: A word that follows markup in names: wherever it is shown, the markup must also be shown as text.
MARK = "M4RK"
STRINGS: Sequence[str] = (
    f"[red]{MARK}[/red]", f"[@click=app.quit()]{MARK}[/]", f"[link=file:///etc/passwd]{MARK}", f"[/]{MARK}", "[", "]",
    "\\", "\x1b[2J\x1b[31mred", "\x1b]52;c;aGk=\x07", "\x9b31m", "a\nb\r\nc", "\x00" * 9, "\u202eevil", "\ud800",
    "\ufeff", "\u2028", "", " ", "x" * 70_000, "\u6728" * 50, "e\u0301" * 20, "\U0001f469\u200d\U0001f467" * 5,
    "a.b[0].c", "brokers[99999999999].host", "%s%d{}{0}", '"', "-1",
)  # fmt: skip
NUMBERS: Sequence[object] = (
    0, -1, 1, 2**15, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**64, 10**30, 1.5, -0.0, 1e308, True,
)  # fmt: skip
TIMES: Sequence[str] = (
    "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z", "2026-02-30T00:00:00.000000Z", "soon", "",
    "1969-12-31T23:59:59.999999Z", "2026-11-21T02:19:55.762532+09:00",
)  # fmt: skip


def trace(random: Random, count: int = 120) -> bytes:
    """Return a trace with a few valid and many invalid lines."""
    lines = _lines_to_change(random)
    content = bytearray()
    for _ in range(count):
        line = random.choice(lines)
        row = json.loads(line)
        for _ in range(random.choice((0, 1, 1, 2, 5))):
            _change(row, random)
        data = (
            json.dumps(row).encode()
            if random.random() < 0.9
            else json.dumps(row, ensure_ascii=False).encode(errors="replace")
        )
        content += _damage(data, random) if random.random() < 0.15 else data
        content += b"\n"
    return bytes(content + random.choice(list(_invalid_lines())))


def capture(random: Random) -> bytes:
    """Return a capture with some bytes changed."""
    path = random.choice(sorted(CAPTURES.glob("*.pcap.gz")) + sorted((DATA / "bugs").glob("*.pcap.gz")))
    data = bytearray(gzip.decompress(path.read_bytes()))
    for _ in range(random.choice((1, 3, 10, 40))):
        if len(data) > 30:
            index = random.randrange(24, len(data))
            data[index : index + random.choice((0, 1, 4))] = random.choice(
                (b"", b"\xff", b"\x7f\xff\xff\xff", b"\x00\x00", random.randbytes(3))
            )
    return bytes(data[: random.randrange(len(data)) if random.random() < 0.2 else len(data)])


def _lines_to_change(random: Random) -> list[bytes]:
    """Return valid lines to change: lines of every kind, of a group, and of captures at any detail."""
    lines = (CAPTURES / "trace-1.jsonl").read_bytes().splitlines()
    with gzip.open(DATA / "groups" / "application-does-not-poll.jsonl.gz") as file:
        lines += random.sample(file.read().splitlines(), 40)
    for path in random.sample(sorted(CAPTURES.glob("*.pcap.gz")), 4):
        encoded = bytearray()
        for line in lines_of(path, detail=random.choice(list(Detail))):
            append_line(line, encoded)
        lines += encoded.splitlines()
    return [line for line in lines if line]


def _change(container: Any, random: Random) -> None:
    """Change one random value of a line."""
    while isinstance(container, (dict, list)) and container:
        key = random.choice(list(container)) if isinstance(container, dict) else random.randrange(len(container))
        value = container[key]
        if isinstance(value, (dict, list)) and value and random.random() < 0.8:
            container = value
            continue
        if key == "kind":
            return
        if key == "frame" and isinstance(value, str):
            container[key] = _altered_frame(value, random)
        elif key in ("ts", "request_ts"):
            container[key] = random.choice(TIMES)
        elif random.random() < 0.1:
            del container[key]
        else:
            container[key] = _replacement_for(value, random)
        return


def _replacement_for(value: Any, random: Random) -> Any:
    if random.random() < 0.1:
        return random.choice((None, [], {}, [None], {"": {}}, [[]], random.choice(STRINGS), random.choice(NUMBERS)))
    if isinstance(value, str):
        return random.choice(STRINGS)
    if isinstance(value, (int, float)):
        return random.choice(NUMBERS)
    return random.choice((value, [value] * 300 if isinstance(value, dict) else value, None))


def _altered_frame(encoded_frame: str, random: Random) -> str:
    try:
        frame = bytearray(base64.b64decode(encoded_frame))
    except ValueError:
        return encoded_frame
    for _ in range(random.choice((1, 2, 8))):
        if len(frame) > 4:
            frame[random.randrange(4, len(frame))] = random.choice((0, 0x7F, 0x80, 0xFF, random.randrange(256)))
    return base64.b64encode(frame[: random.choice((len(frame), len(frame), 3, 9))]).decode() + random.choice(
        ("", "", "=", "\x1b")
    )


def _damage(data: bytes, random: Random) -> bytes:
    index = random.randrange(len(data))
    return (
        data[:index]
        + random.choice((b"", b"\x00" * 8, b"\xff\xfe", b"\x1b[2J", data))
        + data[index + random.randrange(3) :]
    )


def _invalid_lines() -> Iterator[bytes]:
    """Yield data with completely invalid or extreme lines; the last of them is incomplete."""
    line_start = (
        b'{"kind":"request","v":1,"ts":"2026-11-21T00:00:00.000000Z","connection_id":"n-1","client":"c","server":"s",'
    )
    yield b"[" * 100_000
    yield line_start + b'"size":1,"offset":0,"body":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}\n"
    yield line_start + b'"size":1,"offset":0,"body":' + b'{"a":' * 300 + b"[" * 300 + b"]" * 300 + b"}" * 300 + b"}\n"
    yield line_start + b'"size":1,"offset":0,"api":"Fetch","client_id":"' + b"\\u001b[" * 100_000 + b'"}\n'
    yield b"\x00" * 5_000
    yield b'{"kind":"request"}\n{"kind":"open","v":1}\n{"kind":"nothing","v":1}\n{}\nnull\n[]\n0\n""\n'
    yield b"\xef\xbb\xbf" + line_start + b'"size":1,"offset":0}\n'
    yield b"\n\n \n\r\n"
    yield line_start + b'"size":1'
