"""Trace lines are shown as text."""

import io

import msgspec
import pytest

from kproxy.outputs.text import TextOutput, topics_text
from kproxy.trace.formatting import duration, safe, size
from kproxy.trace.lines import (
    CloseLine,
    ErrorEntry,
    FindingEntry,
    FindingLine,
    GapLine,
    Line,
    OpenLine,
    RepeatEntry,
    RequestLine,
    ResponseLine,
    StallLine,
    TopicEntry,
)
from kproxy.trace.time_display import TimeDisplay

COMMON = {"v": 1, "ts": "2026-11-21T03:41:00.123456Z", "connection_id": "web-1-77-12"}
ENDPOINTS = {"client": "10.0.0.1:5", "server": "10.0.0.2:9092"}
REQUEST = RequestLine(
    **COMMON, **ENDPOINTS, api="Produce", api_key=0, api_version=9, correlation_id=7, client_id="shop", size=1500,
    offset=0, acks=-1, topics=[TopicEntry("orders", None, [0, 1], 1400, 12)],
)  # fmt: skip
RESPONSE = ResponseLine(
    **COMMON, **ENDPOINTS, api="Produce", api_key=0, api_version=9, correlation_id=7, client_id="shop", size=90,
    offset=0, latency_us=2100, throttle_time_ms=50, errors=[ErrorEntry("a", 6, "NOT_LEADER_OR_FOLLOWER")],
    findings=[FindingEntry("L001", "trailing-bytes", "error", "3 bytes left", span=(80, 83), hint="drop them")],
)  # fmt: skip


def line_text(line: Line, **options: bool) -> str:
    file = io.StringIO()
    TextOutput(file, **options).write(line)
    return file.getvalue()


def test_request_is_one_aligned_row() -> None:
    expected = (
        "03:41:00.123    #12 > Produce v9 #7                  1.5 KB            "
        "shop  orders[0,1] 12 records 1.4 KB  acks=-1\n"
    )
    assert line_text(REQUEST) == expected


def test_response_shows_latency_throttling_errors_and_findings() -> None:
    row, finding, hint = line_text(RESPONSE).splitlines()
    assert row.startswith("03:41:00.123    #12 < Produce v9 #7                    90 B    2.1 ms  ")
    assert row.endswith("throttled 50 ms  NOT_LEADER_OR_FOLLOWER")
    assert finding.split() == ["L001", "trailing-bytes", "3", "bytes", "left", "[bytes", "80..83]"]
    assert hint.strip() == "hint: drop them"


def test_columns_of_rows_are_aligned() -> None:
    request_end, response_end = line_text(REQUEST).index("1.5 KB") + 6, line_text(RESPONSE).index("90 B") + 4
    assert request_end == response_end


def test_fetch_response_shows_a_lag_above_zero() -> None:
    entries = [TopicEntry("orders", None, [0], lag=120), TopicEntry("audit", None, [0], lag=3), TopicEntry("idle")]
    fetch = ResponseLine(**COMMON, **ENDPOINTS, api="Fetch", api_version=12, size=9, offset=0, topics=entries)
    assert line_text(fetch).endswith("orders[0], audit[0], idle  lag 123\n")
    fetch.topics = [TopicEntry("orders", None, [0], lag=0)]
    assert line_text(fetch).endswith("orders[0]\n")


def test_api_versions_request_shows_the_client_software() -> None:
    line = RequestLine(**COMMON, **ENDPOINTS, api="ApiVersions", api_version=3, size=9, offset=0, client_id="shop",
                       software_name="librdkafka", software_version="2.16.0")  # fmt: skip
    assert line_text(line).endswith("  shop  librdkafka 2.16.0\n")
    line.software_name = "\x1b[2J"
    assert line_text(line).endswith("  shop  \\x1b[2J 2.16.0\n")
    line.client_id = line.software_version = None
    line.software_name = "franz-go"
    assert line_text(line).endswith("  franz-go\n")


@pytest.mark.parametrize(("api", "is_shown"), [("SaslAuthenticate", True), (None, True), ("Metadata", False)])
def test_response_that_accepts_a_login_shows_the_principal(api: str | None, is_shown: bool) -> None:
    line = ResponseLine(**COMMON, **ENDPOINTS, principal="User:al\x1bice", api=api, size=90, offset=0)
    assert ("User:al" in line_text(line)) == is_shown
    assert "\x1b" not in line_text(line)


def test_quiet_output_shows_only_problems() -> None:
    assert line_text(REQUEST, quiet=True) == ""
    assert "L001" in line_text(RESPONSE, quiet=True)
    assert "gap" in line_text(GapLine(**COMMON, direction="request", bytes=3, reason="behind"), quiet=True)
    redaction = FindingEntry("K004", "redacted", "info", "CreateTopics carries secrets")
    redacted_line = RequestLine(**COMMON, **ENDPOINTS, size=1, offset=0, findings=[redaction])
    assert "K004" in line_text(redacted_line)
    assert line_text(redacted_line, quiet=True) == ""
    line_with_error = RequestLine(**COMMON, **ENDPOINTS, size=1, offset=0, findings=[redaction, *RESPONSE.findings])
    assert "L001" in line_text(line_with_error, quiet=True)
    assert "K004" not in line_text(line_with_error, quiet=True)


def test_verbose_output_shows_the_body_as_fields() -> None:
    RESPONSE.body = {"topics": [{"name": "orders", "ids": [1, 2], "none": None, "data": b"\xff\x00"}], "ok": True}
    rows = [row.strip() for row in line_text(RESPONSE, verbose=True).splitlines()]
    RESPONSE.body = None
    for expected in ("topics:", "[0]", "name: orders", "none: null", "data: base64 /wA= (2 bytes)", "ok: true"):
        assert expected in rows


def test_large_body_is_truncated() -> None:
    RESPONSE.body = {"ids": list(range(10_000))}
    rows = line_text(RESPONSE, verbose=True).splitlines()
    RESPONSE.body = None
    assert len(rows) < 80


def test_control_characters_from_a_client_are_escaped() -> None:
    hostile = RequestLine(
        **COMMON, **ENDPOINTS, api="Metadata", api_version=1, size=9, offset=0, client_id="\x1b[2J\udcff\n"
    )
    assert "\x1b" not in line_text(hostile)
    assert r"\x1b[2J\udcff\n" in line_text(hostile)


def test_open_and_close_rows_show_the_endpoints() -> None:
    assert "open   10.0.0.1:5 -> 10.0.0.2:9092" in line_text(OpenLine(**COMMON, **ENDPOINTS))
    closed = line_text(
        CloseLine(**COMMON, **ENDPOINTS, by="client", how="reset", requests=4, responses=3, unanswered=1)
    )
    assert "reset by client" in closed
    assert "1 unanswered" in closed


def test_short_expected_and_actual_values_are_shown_below_the_finding() -> None:
    finding = FindingEntry("C001", "n", "error", "m", expected="7", got="\x1b9")
    [row, detail] = line_text(
        RequestLine(**COMMON, **ENDPOINTS, size=1, offset=0, findings=[finding]), quiet=True
    ).splitlines()[1:]
    assert row.strip() == "C001 n  m"
    assert detail.strip() == r"expected 7, got \x1b9"
    finding.expected = 80 * "x"
    assert "expected" not in line_text(RequestLine(**COMMON, **ENDPOINTS, size=1, offset=0, findings=[finding]))


def test_close_row_shows_repeated_findings() -> None:
    line = CloseLine(**COMMON, **ENDPOINTS, repeated=[RepeatEntry("C001", "n", 53), RepeatEntry("L005", "m", 2)])
    assert line_text(line).rstrip().endswith("repeated: C001 53x, L005 2x")


def test_connection_finding_shows_its_hint() -> None:
    line = FindingLine(**COMMON, code="X003", name="http-to-kafka", severity="error", message="HTTP", hint="other port")
    assert [row.strip() for row in line_text(line).splitlines()][1] == "hint: other port"


def stall_line(until: str | None, message: str = "a has waited 6.0 s") -> StallLine:
    return StallLine(
        **COMMON, group_id="g", stall="join-waits", severity="error", since=COMMON["ts"], until=until,
        duration_us=12_000_000, message=message, hint="look", request_offset=7,
    )  # fmt: skip


def test_end_of_a_stall_is_one_row_if_its_finding_was_shown() -> None:
    finding = FindingLine(
        **COMMON, code="G001", name="join-waits", severity="warning", message="group 'g': a has waited 6.0 s",
        hint="look", group_id="g", offset=7,
    )  # fmt: skip
    file = io.StringIO()
    output = TextOutput(file, quiet=True)
    longer_stall = stall_line(None, "a has waited 10.0 s")
    for line in (finding, stall_line(None), longer_stall, stall_line(COMMON["ts"])):
        output.write(line)
    rows = [row.strip() for row in file.getvalue().splitlines()]
    assert [row.partition("! ")[2] or row for row in rows] == [
        "G001 join-waits  group 'g': a has waited 6.0 s",
        "hint: look",
        "stall join-waits  group g: a has waited 10.0 s",
        "over after 12.0 s: G001 join-waits  group g",
    ]
    assert "a has waited" in line_text(stall_line(COMMON["ts"]))  # the trace may lack the finding


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_time_zone_is_named_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for file, clock, expected_note in (
        (Terminal(), TimeDisplay(), ["times are UTC; --local-time shows local times"]),
        (io.StringIO(), TimeDisplay(), []),
        (io.StringIO(), TimeDisplay(is_local=True), [f"times are {TimeDisplay(is_local=True).label(REQUEST.ts)}"]),
    ):
        output = TextOutput(file, clock=clock)
        output.write(REQUEST)
        output.write(REQUEST)
        rows = file.getvalue().splitlines()
        assert rows[: len(expected_note)] == expected_note
        assert [row[:12] for row in rows[len(expected_note) :]] == 2 * [clock.time(REQUEST.ts)]


def test_colours_are_used_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = Terminal()
    TextOutput(coloured).write(REQUEST)
    assert "\x1b[" in coloured.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    TextOutput(plain).write(REQUEST)
    assert "\x1b[" not in plain.getvalue()


@pytest.mark.parametrize(
    ("count", "expected"), [(999, "999 B"), (1000, "1.0 KB"), (999_999, "1.0 MB"), (3_400_000, "3.4 MB")]
)
def test_sizes_have_units(count: int, expected: str) -> None:
    assert size(count) == expected


@pytest.mark.parametrize(
    ("duration_us", "expected"), [(None, ""), (999, "999 us"), (1500, "1.5 ms"), (2_500_000, "2.5 s")]
)
def test_durations_have_units(duration_us: int | None, expected: str) -> None:
    assert duration(duration_us) == expected


def test_further_topics_are_only_counted() -> None:
    assert topics_text([TopicEntry(f"t{n}") for n in range(9)]) == "t0, t1, t2 +6 more"


def test_printable_text_is_not_escaped() -> None:
    assert safe("Grüße, 注文") == "Grüße, 注文"


def test_long_names_widen_the_column() -> None:
    long_request = msgspec.structs.replace(
        REQUEST, api="GetTelemetrySubscriptions", api_version=0, correlation_id=2**31 - 1
    )
    assert " > GetTelemetrySubscriptions v0 #2147483647   1.5 KB  " in line_text(long_request)
    unknown_request = msgspec.structs.replace(REQUEST, api=None, correlation_id=None)
    assert line_text(unknown_request).index("1.5 KB") == line_text(REQUEST).index("1.5 KB")
    assert "#" not in line_text(unknown_request).partition(" > ")[2]
    assert line_text(REQUEST, verbose=True).count("#7") == 1
