"""Hostile text in generated files is checked with a parser of each language."""

from __future__ import annotations

import ast
import gzip
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kproxy import escaping
from kproxy.cli import main
from kproxy.outputs import stderr
from kproxy.trace.encoding import append_line, encode_json, encode_line, parse_line

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "captures" / "metadata-v1-in-the-layout-of-v3.pcap.gz"
HOSTILE = (
    'q"\'""" \'\'\'\nimport os; x = 1\r\n"""#\x1b[2J\x1b]0;t\x07\u009b31m\x7f\u202e\u2028</script><b>]]>--><!--'
    " `` $(exit 9) [red]x[/red] [@click=app.quit]y[/] \\"
)
NOT_FOR_TERMINALS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("text", [HOSTILE, f"{HOSTILE}\udcff\ud800\0", "a b", "", "ö", "'"])
def test_python_parses_escaped_text_as_text(text: str) -> None:
    source = f'"""{escaping.python_docstring(text)}"""\nx = 1  # {escaping.python_comment(text)}\n'
    docstring, assignment = ast.parse(source).body
    assert isinstance(docstring, ast.Expr)
    assert ast.literal_eval(docstring.value) == text
    assert isinstance(assignment, ast.Assign)


@pytest.mark.parametrize("text", [HOSTILE, f"{HOSTILE}\udcff", "a b", "", "ö", "'"])
def test_shell_parses_escaped_text_as_one_word(text: str) -> None:
    word = escaping.shell_word(text)
    assert not NOT_FOR_TERMINALS.search(word)
    process = subprocess.run(["bash", "-c", f"printf '%s\\0' {word}"], capture_output=True, check=True)
    assert process.stdout == text.encode("utf-8", "surrogateescape") + b"\0"


@pytest.mark.parametrize("text", [HOSTILE, "`", "a``b", "plain"])
def test_markdown_has_one_code_span(text: str) -> None:
    code = escaping.markdown_code(text)
    fence = re.match("`+", code)
    assert fence is not None
    assert fence[0] not in re.findall("`+", code[len(fence[0]) : -len(fence[0])])
    assert not NOT_FOR_TERMINALS.search(code)


def test_json_escapes_control_characters_and_parses_back() -> None:
    value = {HOSTILE: HOSTILE + "ö \U0001f600"}
    encoded = encode_json(value)
    assert json.loads(encoded) == value
    assert not NOT_FOR_TERMINALS.search(encoded.decode())
    assert "ö \U0001f600".encode() in encoded


def test_trace_lines_are_harmless() -> None:
    line = parse_line(
        encode_json(
            {
                "v": 1,
                "kind": "gap",
                "connection_id": "a-0",
                "direction": "request",
                "bytes": 1,
                "ts": "2026-01-01T00:00:00.000000Z",
                "reason": HOSTILE,
                "frames": 1,
            }
        )
    )
    output = bytearray(b"before\n")
    append_line(line, output)
    assert output == b"before\n" + encode_line(line)
    assert parse_line(bytes(output[7:])) == line
    assert not NOT_FOR_TERMINALS.search(output.decode().replace("\n", ""))


def test_messages_are_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    stderr.warn(f"{HOSTILE}\udcff\0: no such file")
    output = capsys.readouterr().err
    assert not NOT_FOR_TERMINALS.search(output)
    assert output.count("\n") == 1


@pytest.mark.parametrize("words", [["dissect", HOSTILE], [f"--{HOSTILE}"], [HOSTILE], ["rules", HOSTILE],
                                   ["export-test", HOSTILE, "0:1"], ["explain", HOSTILE], ["diff", HOSTILE, HOSTILE],
                                   ["quirks", HOSTILE], ["dissect", "-f", HOSTILE, "x"], ["tui", HOSTILE],
                                   ["--listen", HOSTILE, "--upstream", HOSTILE], ["replay", HOSTILE, "localhost:1"],
                                   ["probe", HOSTILE], ["send", HOSTILE],
                                   ["dissect", "--keylog", HOSTILE, HOSTILE]])  # fmt: skip
def test_command_line_errors_have_no_control_characters(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    try:
        status = main(words)
    except SystemExit as end:
        status = int(str(end.code))
    output = capsys.readouterr()
    assert status
    assert not NOT_FOR_TERMINALS.search(output.err + output.out)
    assert "\nimport os" not in output.err + output.out


@pytest.fixture(scope="module")
def hostile_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a capture and a trace with hostile file names; every free-text column of the trace has hostile text."""
    directory = tmp_path_factory.mktemp("hostile")
    name = HOSTILE.replace("/", "\u2215")[:80]
    capture, trace = directory / f"{name}.pcap", directory / f"{name}.jsonl"
    capture.write_bytes(gzip.decompress(CAPTURE.read_bytes()))
    json_path = directory / "made.json"
    with json_path.open("w") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", file)
        main(["dissect", "--json", "--detail", "raw", str(CAPTURE)])
    trace.write_text(
        "".join(json.dumps(_hostile(json.loads(line))) + "\n" for line in json_path.read_text().splitlines())
    )
    return capture, trace


_FREE_TEXT_COLUMNS = {
    "client_id", "message", "hint", "software_name", "software_version", "reason", "detail", "group_id", "topic",
    "server", "client", "principal", "expected", "got", "error",
}  # fmt: skip


def _hostile(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: HOSTILE if k in _FREE_TEXT_COLUMNS and isinstance(v, str) else _hostile(v) for k, v in value.items()}
    return [_hostile(element) for element in value] if isinstance(value, list) else value


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attrs)))


def _run(capfdbinary: pytest.CaptureFixture[bytes], *words: str) -> str:
    main(words)
    output = capfdbinary.readouterr()
    errors = output.err.decode()
    assert not NOT_FOR_TERMINALS.search(errors), errors
    assert "Traceback" not in errors
    return output.out.decode()


@pytest.mark.parametrize("index", [0, 1])
def test_outputs_of_a_hostile_file_are_harmless(
    capfdbinary: pytest.CaptureFixture[bytes], hostile_files: tuple[Path, Path], index: int
) -> None:
    file = str(hostile_files[index])

    def run(*words: str) -> str:
        text = _run(capfdbinary, *words)
        assert text
        assert not NOT_FOR_TERMINALS.search(text), (words, NOT_FOR_TERMINALS.search(text))
        return text

    run("dissect", file)
    run("dissect", "-v", file)
    run("dissect", "--fields", "client_id,server,connection_id", file)
    for line in run("dissect", "--json", file).splitlines():
        json.loads(line)
    run("dissect", "--findings", file)
    json.loads(run("dissect", "--findings", "--json", file))
    json.loads(run("dissect", "--findings", "--format", "sarif", file))
    ElementTree.fromstring(run("dissect", "--findings", "--format", "junit", file))
    run("diff", file, str(CAPTURE))
    page, expected = (_Page(run("dissect", "--html", path)).tags for path in (file, str(CAPTURE)))
    assert page == expected


@pytest.mark.parametrize("index", [0, 1])
def test_exported_test_has_only_its_own_statements(
    capfdbinary: pytest.CaptureFixture[bytes], hostile_files: tuple[Path, Path], index: int
) -> None:
    source = _run(capfdbinary, "export-test", str(hostile_files[index]), "0:2")
    assert source.isascii()
    docstring, assignment, function = ast.parse(source).body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(assignment, ast.Assign)
    assert isinstance(function, ast.FunctionDef)
    assert all(isinstance(statement, ast.Assign | ast.Assert) for statement in function.body)
