"""Formats new findings and clients as one line each; untrusted text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import Row
from rich.text import Text

from dissectors.findings import Severity
from kproxy.outputs.text import STYLES
from kproxy.spark.tables import cell
from kproxy.trace.formatting import safe

_SEVERITIES = list(Severity)


def format_finding(row: Row) -> Text:
    """Return ``05:12:41  error    L001 trailing-bytes  shop > 10.0.0.1:9092  message  (n-1-7 response, byte 720)``."""
    origin = [row["connection_id"], row["direction"]]
    location = " ".join(filter(None, origin)) + (f", byte {row['offset']}" if row["offset"] is not None else "")
    return _format_line(
        row,
        (f"{row['severity']:<8} ", str(row["severity"])),
        (f"{row['code']} {row['name']}  ", "name"),
        (_client_and_broker(row), "topic"),
        (f"{row['message']}  ", ""),
        (f"({location})", "dim"),
    )


def format_client(row: Row) -> Text:
    """Return ``05:12:41  client   shop > 10.0.0.1:9092  apache-kafka-java 3.9.1``, or the use of a removed version."""
    if row["refused_from"] is not None:
        version_text = f"uses {row['api']} v{row['api_version']}, which Kafka {row['refused_from']} and later refuse"
        return _format_line(row, ("version  ", "warning"), (_client_and_broker(row), "topic"), (version_text, ""))
    software = " ".join(filter(None, (row["software_name"], row["software_version"])))
    return _format_line(
        row, ("client   ", "info"), (_client_and_broker(row), "topic"), (software or "unknown software", "")
    )


def sort_findings(rows: Sequence[Row]) -> list[Row]:
    """Return findings in display order."""
    return sorted(rows, key=lambda row: (-_SEVERITIES.index(row["severity"]), row["at"], row["code"]))


def sort_clients(rows: Sequence[Row]) -> list[Row]:
    """Return clients in display order: clients with a removed version first."""
    return sorted(rows, key=lambda row: (row["refused_from"] is None, row["at"], row["client"]))


#: The functions that sort and format the rows, by query.
LINE_FORMATS: dict[str, tuple[Callable[[Sequence[Row]], list[Row]], Callable[[Row], Text]]] = {
    "findings": (sort_findings, format_finding),
    "clients": (sort_clients, format_client),
}


def format_rows(query: str, rows: Sequence[Row], max_lines: int) -> Iterator[Text]:
    """Yield lines for new rows of a query, at most `max_lines`."""
    sort_rows, format_row = LINE_FORMATS[query]
    for row in sort_rows(rows)[:max_lines]:
        yield format_row(row)
    if (more_count := len(rows) - max_lines) > 0:
        yield Text(f"{'':10}and {more_count} more new {query}; --format json lists all", style="dim")


def _client_and_broker(row: Row) -> str:
    names = " > ".join(filter(None, (row["client"], row["broker"])))
    return f"{names}  " if names else ""


def _format_line(row: Row, *pieces: tuple[str, str]) -> Text:
    time_piece = (f"{cell('at', row['at'])[11:]}  ", "dim")
    return Text.assemble(*((safe(text), STYLES.get(style, "")) for text, style in (time_piece, *pieces)))
