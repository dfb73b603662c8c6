"""`--payloads` decodes and masks keys, values and headers of records, which are withheld without it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from dissectors.records import encode
from kproxy.cli import payload_options
from kproxy.errors import UserError
from tests.kproxy.capture.packets import SYN, pcap, tcp_packet
from tests.kproxy.cli.conftest import Run
from tests.kproxy.frames import request, with_length_prefix
from tests.kproxy.html.pages import ParsedPage

ORDER = (
    '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}, {"name": "card", "type": "string"}]}'
)
CARD = b"planted-4111-1111"
UNKNOWN = {"format": "(masked)", "data": "(masked)", "problem": "its schema is not known, so all of it is masked"}
#: "planted" as it may appear: as text, as hex, in base64 at each alignment.
PLANTED_SPELLINGS = ["planted", b"planted".hex(), b"planted".hex(" "), "cGxhbnRl", "YW50ZW", "bGFudGVk"]
RECORDS: list[dict[str, Any]] = [
    {
        "key": b"planted-key",
        "value": b"\0\0\0\0\x11" + b"\x22" + bytes([2 * len(CARD)]) + CARD,
        "headers": [{"key": "trace", "value": b"planted-header"}, {"key": "none", "value": None}],
    },
    {"key": b"k2", "value": None},
    {"key": b"k3", "value": b"\0\0\0\0\x12planted-without-schema"},
    {"key": b"k4", "value": b'{"id": 5, "card": {"number": "planted"}}'},
]


def produce(compression: str = "none", *, correlation_id: int = 1, flipped_index: int | None = None) -> bytes:
    data = bytearray(encode([{"compression": compression, "records": RECORDS}]))
    if flipped_index is not None:
        data[flipped_index] ^= 1
    partition = {"index": 0, "records": bytes(data)}
    body = {"acks": 1, "timeout_ms": 100, "topic_data": [{"name": "orders", "partition_data": [partition]}]}
    return request("Produce", 9, body, correlation_id=correlation_id)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    frame = produce("gzip") + produce(correlation_id=2)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "17.orders-value.avsc").write_text(ORDER)
    return write_capture(tmp_path / "orders.pcap", frame)


def write_capture(path: Path, data: bytes) -> Path:
    path.write_bytes(pcap([tcp_packet(0, flags=SYN), tcp_packet(1, data)]))
    return path


def last_records(text: str) -> list[dict[str, Any]]:
    """Return the records of the last frame."""
    bodies = [json.loads(line)["body"] for line in text.splitlines() if "body" in json.loads(line)]
    decoded: list[dict[str, Any]] = bodies[-1]["topic_data"][0]["partition_data"][0]["records"][0]["records"]
    return decoded


def test_decodes_records_of_a_capture(kproxy: Run, capture: Path) -> None:
    result = kproxy("dissect", "--json", "--payloads", "--schemas", capture.parent / "schemas", capture)
    assert result.returncode == 0, result.stderr
    first, second, third, fourth = last_records(result.stdout)
    assert first["key"] == {"format": "text", "data": "planted-key", "guess": True}
    assert first["value"] == {
        "format": "avro",
        "data": {"id": 17, "card": CARD.decode()},
        "schema": {"id": 17},
        "subject": "orders-value",
        "type": "Order",
        "reencoding": "equal",
    }
    assert first["headers"] == [
        {"key": "trace", "value": {"format": "text", "data": "planted-header", "guess": True}},
        {"key": "none", "value": None},
    ]
    assert second["value"] is None
    assert third["value"] == {
        "format": "text",
        "data": "planted-without-schema",
        "guess": True,
        "schema": {"id": 18},
        "problem": f"{capture.parent / 'schemas'} has no schema with id 18",
        "offset": 1,
    }
    assert fourth["value"] == {"format": "json", "data": {"id": 5, "card": {"number": "planted"}}}


def test_text_output_has_a_row_per_record(kproxy: Run, capture: Path) -> None:
    options = ("dissect", "--payloads", "--schemas", capture.parent / "schemas", capture)
    rows = [row.strip() for row in kproxy(*options).stdout.splitlines()]
    assert [row for row in rows if row.startswith("orders[0]")] == 2 * [
        'orders[0] +0  text? "planted-key"  ->  avro Order orders-value id 17 {"id":17,"card":"planted-4111-1111"}  '
        'trace: text? "planted-header"  none: null',
        'orders[0] +1  text? "k2"  ->  null (tombstone)',
        'orders[0] +2  text? "k3"  ->  text? id 18 "planted-without-schema" '
        f"({capture.parent / 'schemas'} has no schema with id 18 at byte 1)",
        'orders[0] +3  text? "k4"  ->  json {"id":5,"card":{"number":"planted"}}',
    ]
    assert not [row for row in rows if row.startswith("acks")]
    masked = kproxy(*options, "--mask=value.card", "--mask=key").stdout
    assert f"orders[0] +2  (masked)  ->  (masked) ({UNKNOWN['problem']})" in masked
    assert "orders[0] +" not in kproxy(*options, "-q").stdout


def test_verbose_output_shows_decoded_values(kproxy: Run, capture: Path) -> None:
    result = kproxy("dissect", "-v", "--payloads", "--schemas", capture.parent / "schemas", capture)
    rows = [row.strip() for row in result.stdout.splitlines()]
    assert 'value: avro Order orders-value id 17  {"id":17,"card":"planted-4111-1111"}' in rows
    assert "value: null (tombstone)" in rows
    index = rows.index('value: text? id 18  "planted-without-schema"')
    assert rows[index + 1] == f"{capture.parent / 'schemas'} has no schema with id 18 at byte 1"


@pytest.mark.parametrize(
    ("expression", "frame_count"),
    [("value.id=17 and key=k3", 2), ("value.card.number=planted", 2), ("header.trace~head", 2), ("value=null", 2),
     ("value.id=18", 0), ("key=k3 and correlation=2", 1)],
)  # fmt: skip
def test_filters_match_keys_values_and_headers(kproxy: Run, capture: Path, expression: str, frame_count: int) -> None:
    result = kproxy(
        "dissect", "--json", "-f", expression, "--payloads", "--schemas", capture.parent / "schemas", capture
    )
    assert (result.returncode, result.stdout.count("\n")) == (0, frame_count)


def test_record_filter_needs_payloads(kproxy: Run, capture: Path, tmp_path: Path) -> None:
    result = kproxy("dissect", "-f", "api=Produce and not value.id=17", capture)
    sentence = "kproxy: the filter reads keys, values or headers of records: pass --payloads\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", sentence)
    trace = tmp_path / "a.jsonl"
    trace.write_text(kproxy("dissect", "--json", "--payloads", capture).stdout)
    assert kproxy("dissect", "--json", "-f", "value.id=5", trace).stdout.count("\n") == 2


def test_filter_does_not_match_masked_values(kproxy: Run, capture: Path) -> None:
    options = ("--json", "--payloads", "--mask", "value.**.number", capture)
    assert kproxy("dissect", "-f", "value.card.number=planted", *options).stdout == ""
    assert kproxy("dissect", "-f", "value~mask", *options).stdout == ""


def is_broken(line: dict[str, Any]) -> bool:
    """Return whether a line is about the frame with bytes after its last field."""
    return any(finding["code"] == "L001" for finding in line.get("findings", ()))


@pytest.fixture
def broken_capture(capture: Path) -> Path:
    """A capture that also has broken frames."""
    broken = [
        produce(correlation_id=number, flipped_index=index) for number, index in enumerate((20, 61, 62, 70, 90, 120), 3)
    ]
    broken.append(
        with_length_prefix(produce(correlation_id=9)[4:] + b"\0\1\2")
    )  # its finding is next to the last value
    return write_capture(
        capture.parent / "several.pcap", b"".join([*broken, produce("gzip"), produce(correlation_id=2)])
    )


def test_masked_fields_appear_in_no_output(kproxy: Run, capture: Path, broken_capture: Path) -> None:
    masks = [f"--mask={path}" for path in ("value.**.card", "key", "orders:header.tr*")]
    for options in (["--json"], ["--json", "--frames"], ["--json", "--fields", "findings,body"], [], ["-v"]):
        result = kproxy(
            "dissect", *options, "--payloads", "--schemas", capture.parent / "schemas", *masks, broken_capture
        )
        assert result.returncode == 1, result.stderr  # because of the broken frames
        assert not [spelling for spelling in PLANTED_SPELLINGS if spelling in result.stdout + result.stderr]
        if options == ["--json"]:
            assert not any("body" in line for line in map(json.loads, result.stdout.splitlines()) if is_broken(line))
            first, *_, third, fourth = last_records(result.stdout)
            assert first["value"]["data"] == {"id": 17, "card": "(masked)"}
            assert third["value"] == UNKNOWN
            assert fourth["value"]["data"] == {"card": "(masked)", "id": 5}


def test_masked_records_of_a_damaged_batch_show_no_numbers(kproxy: Run, tmp_path: Path) -> None:
    path = write_capture(tmp_path / "damaged.pcap", produce(flipped_index=11))  # the batch length
    result = kproxy("dissect", "--json", "--payloads", "--mask=key", path)
    [body] = [json.loads(line)["body"] for line in result.stdout.splitlines() if '"body"' in line]
    [batch] = body["topic_data"][0]["partition_data"][0]["records"]
    assert batch.keys() == {"base_offset", "batch_length", "magic", "records", "error"}


def test_masked_text_appears_in_no_output(kproxy: Run, capture: Path, broken_capture: Path) -> None:
    mask = ("--mask-text", r"planted[-\w]*", "--mask-text", "^17$")
    for options in (["--json"], [], ["-v"]):
        result = kproxy(
            "dissect", *options, "--payloads", "--schemas", capture.parent / "schemas", *mask, broken_capture
        )
        assert result.returncode == 1, result.stderr  # because of the broken frames
        assert not [spelling for spelling in PLANTED_SPELLINGS if spelling in result.stdout + result.stderr]
        if options == ["--json"]:
            first, second, third, fourth = last_records(result.stdout)
            assert first["key"]["data"] == first["headers"][0]["value"]["data"] == "(masked)"
            assert first["value"]["data"] == {"id": "(masked)", "card": "(masked)"}
            assert second["value"] is None
            assert third["value"] == UNKNOWN
            assert fourth["value"]["data"] == {"id": 5, "card": {"number": "(masked)"}}
    page = page_text(kproxy("dissect", "--html", "--payloads", *mask, broken_capture).stdout)
    assert "(masked)" in page
    assert not [spelling for spelling in PLANTED_SPELLINGS if spelling in page]


def test_text_masks_require_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"^--mask-text needs the package google-re2: "):
        payload_options.text_masks(["a"])


def test_header_masks_apply_to_cloud_event_attributes(kproxy: Run, tmp_path: Path) -> None:
    headers = [{"key": f"ce_{name}", "value": b"planted"} for name in ("specversion", "id", "source", "type")]
    partition = {"records": encode([{"records": [{"value": b"{}", "headers": headers}]}])}
    body = {"acks": 1, "topic_data": [{"name": "events", "partition_data": [partition]}]}
    path = write_capture(tmp_path / "events.pcap", request("Produce", 9, body))
    masked = dict.fromkeys(("specversion", "id", "source", "type"), "(masked)")
    for mask in ("--mask=header", "--mask=events:header.ce_*", "--mask-text=planted"):
        result = kproxy("dissect", "--json", "--payloads", mask, path)
        [record] = last_records(result.stdout)
        assert (record["value"]["data"], record["value"]["type"]) == ({**masked, "data": {}}, "(masked)")
        assert "planted" not in result.stdout


def test_masked_tags_appear_in_no_output(kproxy: Run, capture: Path, tmp_path: Path) -> None:
    schemas = tmp_path / "tagged"
    schemas.mkdir()
    (schemas / "17.avsc").write_text(ORDER.replace('"string"}', '"string", "confluent:tags": ["PII"]}'))
    result = kproxy("dissect", "--json", "--payloads", "--schemas", schemas, "--mask-tag", "PII", capture)
    first, _, third, fourth = last_records(result.stdout)
    assert first["value"]["data"] == {"id": 17, "card": "(masked)"}
    assert third["value"]["data"] == "(masked)"
    assert third["value"]["problem"].startswith("its schema is not known")
    assert "18" not in json.dumps(third["value"])  # this may not be an id but part of the value
    assert fourth["value"]["data"] == {"id": 5, "card": {"number": "planted"}}  # plain JSON has no tags
    page = kproxy("dissect", "--html", "--payloads", "--schemas", schemas, "--mask-tag", "PII", capture).stdout
    shapes = ("planted-4111", b"planted-4111".hex(), b"planted-4111".hex(" "), "cGxhbnRlZC00")
    assert not [shape for shape in shapes if shape in result.stdout + page_text(page)]


@pytest.mark.parametrize(
    "options",
    [
        (), ("-v",), ("--json",), ("--json", "--detail", "full"), ("--fields", "findings,body", "--detail", "full"),
        *(("--findings", "--format", name) for name in ("text", "json", "sarif", "junit")),
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_output_has_record_data_without_the_payloads_option(
    kproxy: Run, broken_capture: Path, options: tuple[str, ...]
) -> None:
    result = kproxy("dissect", *options, broken_capture)
    assert result.returncode == 1, result.stderr  # because of the broken frames
    assert not [spelling for spelling in PLANTED_SPELLINGS if spelling in result.stdout + result.stderr]
    if options == ("--json", "--detail", "full"):
        assert last_records(result.stdout)[0] | {"timestamp": 0} == {
            "offset": 0,
            "timestamp": 0,
            "key": {"format": "(withheld)", "data": "(11 bytes)"},
            "value": {"format": "(withheld)", "data": "(24 bytes)"},
            "headers": [
                {"key": "(withheld)", "value": {"format": "(withheld)", "data": "(14 bytes)"}},
                {"key": "(withheld)", "value": None},
            ],
        }


def test_reports_schema_violations_of_records(kproxy: Run, tmp_path: Path) -> None:
    (tmp_path / "1.events-value.json").write_text('{"title": "Event", "required": ["id"]}')
    record = {"value": b"\0\0\0\0\1{}"}
    batches = encode([{"compression": "gzip", "records": [record, record]}])
    topic = {"name": "events", "partition_data": [{"index": 0, "records": batches}]}
    frame = request("Produce", 9, {"acks": 1, "timeout_ms": 100, "topic_data": [topic]})
    capture = write_capture(tmp_path / "events.pcap", frame)
    message = "events, value: schema id 1 (Event): the value violates 'required' of its JSON Schema"
    for options in ("--findings", "--json"):
        result = kproxy("dissect", options, "--payloads", "--schemas", tmp_path, capture)
        assert (result.returncode, result.stdout.count(message)) == (1, 1), result.stderr
    assert "P009" not in kproxy("dissect", "--findings", capture).stdout
    explained = kproxy("explain", "--payloads", "--schemas", tmp_path, "-", stdin=frame.hex())
    assert (explained.returncode, explained.stdout.count(message)) == (1, 1)


def page_text(page: str) -> str:
    """Return a page together with its packed data."""
    opened_page = ParsedPage(page)
    return page + json.dumps([opened_page.unpacked(name) for name in ("rows", "lines", "sides")])


def test_page_shows_decoded_records(kproxy: Run, capture: Path) -> None:
    options = ("--html", "--payloads", "--schemas", capture.parent / "schemas")
    page = ParsedPage(kproxy("dissect", *options, capture).stdout)
    for side in (page.sides(0)[0], page.sides(1)[0]):  # one is compressed
        index = [field[1] for field in side["fields"]].index("value")
        _, _, kind, _, meaning, start, end = side["fields"][index]
        assert (kind, meaning) == ("varint bytes", "avro Order orders-value id 17")
        inside = [["id", "17"], ["card", f'"{CARD.decode()}"']]
        assert [field[1:4:2] for field in side["fields"][index + 1 : index + 3]] == inside
        assert all(field[5:] == [start, end] for field in side["fields"][index + 1 : index + 3])
        first, second, third, _ = (row[3] for row in side["records"][0]["rows"])
        assert first[:2] == ["avro Order orders-value id 17", '{\n  "id": 17,\n  "card": "planted-4111-1111"\n}']
        assert second[0] == "null"
        assert third[:2] == [
            f"text? id 18: {capture.parent / 'schemas'} has no schema with id 18 at byte 1", "planted-without-schema"
        ]  # fmt: skip
    body = next(line["body"] for line in page.lines if "body" in line)
    assert {"headers": [{"key": "trace", "value": {"format": "text", "data": "planted-header"}}]} in body


def test_page_does_not_contain_masked_values(kproxy: Run, capture: Path, broken_capture: Path) -> None:
    options = ("--html", "--payloads", "--schemas", capture.parent / "schemas")
    masks = ("--mask=value.**.card", "--mask=key", "--mask=header")
    for path in (capture, broken_capture):
        text = page_text(kproxy("dissect", *options, *masks, path).stdout)
        assert "(masked)" in text
        assert not [spelling for spelling in PLANTED_SPELLINGS if spelling in text]


def test_explain_decodes_records(kproxy: Run, capture: Path) -> None:
    options = ("--payloads", "--schemas", capture.parent / "schemas", "-")
    result = kproxy("explain", *options, stdin=produce().hex())
    path = "topic_data[0].partition_data[0].records[0].records"
    rows = result.stdout.splitlines()
    assert f'{path}[0].value  avro Order orders-value id 17  {{"id":17,"card":"planted-4111-1111"}}' in rows
    assert f'{path}[0].headers[0].value  text?  "planted-header"' in rows
    assert f"{path}[1].value  null (tombstone)" in rows
    assert rows[-3] == f"    {capture.parent / 'schemas'} has no schema with id 18 at byte 1"
    explanation = json.loads(kproxy("explain", "--json", *options, stdin=produce().hex()).stdout)
    assert last_records(json.dumps(explanation))[0]["value"]["data"] == {"id": 17, "card": "planted-4111-1111"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--schemas", "x"], "--schemas needs --payloads"),
        (["--mask", "value"], "--mask needs --payloads"),
        (["--mask-text", "a"], "--mask-text needs --payloads"),
        (
            ["--payloads", "--mask-text", "(a"],
            "--mask-text (a: missing ): (a; pass a regular expression in RE2's syntax",
        ),
        (
            ["--payloads", "--mask", "value", "--detail", "raw"],
            "--mask cannot mask the bytes of frames: do not pass --detail raw with it",
        ),
        (
            ["--payloads", "--mask-text", "a", "--detail", "raw"],
            "--mask-text cannot mask the bytes of frames: do not pass --detail raw with it",
        ),
        (["--payloads", "--schemas", "gone"], "--schemas gone: no such directory"),
        (["--payloads", "--registry", "localhost:1"], "--registry: pass a URL, such as http://localhost:8081"),
        (
            ["--payloads", "--registry", "http://a:b@localhost"],
            "--registry: pass the user with --registry-user, not in the URL, where others can see it",
        ),
        *(
            (
                ["--payloads", "--registry", url],
                "--registry: pass a URL without ? and #, since paths are added to it; "
                "a token belongs into $KPROXY_REGISTRY_SECRET or --registry-secret-file FILE",
            )
            for url in ("http://localhost/?apikey=planted", "http://localhost#planted", "http://localhost?")
        ),
        (["--payloads", "--registry-user", "a"], "--registry-user needs --registry URL"),
        (
            ["--payloads", "--registry", "http://localhost", "--registry-user", "a"],
            "--registry-user needs a password: pass --registry-secret-file FILE, or set $KPROXY_REGISTRY_SECRET",
        ),
        (
            ["--payloads", "--registry", "https://localhost", "--registry-cert", "a"],
            "--registry-cert and --registry-key must be used together",
        ),
        (
            ["--payloads", "--registry", "http://localhost", "--registry-ca", "a"],
            "--registry-ca, --registry-cert and --registry-key need an https:// URL",
        ),
    ],
)
def test_rejects_invalid_payload_options(kproxy: Run, capture: Path, options: list[str], sentence: str) -> None:
    result = kproxy("dissect", *options, capture)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"kproxy: {sentence}\n")


def test_payloads_option_rejects_traces(kproxy: Run, capture: Path, tmp_path: Path) -> None:
    trace = tmp_path / "a.jsonl"
    trace.write_text(kproxy("dissect", "--json", capture).stdout)
    for argument in (trace, tmp_path, "."):
        result = kproxy("dissect", "--payloads", argument)
        assert result.returncode == 2
        assert result.stderr.endswith(
            "a.jsonl is a trace, and --payloads decodes the records of captures only: pass --payloads to the proxy "
            "that writes the trace, and leave it out here\n"
        )
        assert result.stderr.count("\n") == 1


def test_uses_schemas_found_in_the_traffic(kproxy: Run, tmp_path: Path) -> None:
    key = b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}'
    value = json.dumps({"subject": "orders-value", "version": 1, "id": 17, "schema": ORDER, "deleted": False})
    batches = encode([{"records": [{"key": key, "value": value.encode()}]}])
    topic = {"name": "_schemas", "partition_data": [{"index": 0, "records": batches}]}
    schema_frame = request("Produce", 9, {"acks": 1, "timeout_ms": 100, "topic_data": [topic]}, correlation_id=9)
    result = kproxy(
        "dissect", "--json", "--payloads", write_capture(tmp_path / "schemas.pcap", schema_frame + produce())
    )
    assert result.returncode == 0, result.stderr
    value, *_ = (record["value"] for record in last_records(result.stdout))
    assert value["data"] == {"id": 17, "card": CARD.decode()}
    assert (value["subject"], value["schema"]) == ("orders-value", {"id": 17})
