"""Topics: what is written to them and read from them, and how far readers are behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text

from kproxy.browse.overviews.topic import PartitionSummary, ReaderLag, TopicClient, TopicSummary, Traffic
from kproxy.browse.session import BrowseSession
from kproxy.trace.formatting import safe, size
from kproxy.tui.overview import OverviewView, bars, count, lines, names_and_counts, quoted, squeezed
from kproxy.tui.table import Cell, TableColumn

_BARS = 14
#: Readers, clients and partitions that are told of a topic.
_MOST = 30


class TopicView(OverviewView[TopicSummary]):
    """See the module."""

    title: ClassVar[str] = "Topics"
    about: ClassVar[str] = (
        "Each row is a topic: records written and read, per second and in total. Lag comes from Fetch "
        "responses: how many"
        " records are between a reader's position and the high watermark, for the slowest reader. Empty are"
        " fetches without records. Enter shows its frames."
    )
    columns: ClassVar[Sequence[TableColumn]] = (
        TableColumn("topic", 16, grow=2),
        TableColumn("written", 9, right=True),
        TableColumn("per s", 7, right=True, drop=4),
        TableColumn("", _BARS, drop=6),
        TableColumn("bytes", 8, right=True, drop=3),
        TableColumn("read", 9, right=True),
        TableColumn("per s", 7, right=True, drop=4),
        TableColumn("", _BARS, drop=7),
        TableColumn("bytes", 8, right=True, drop=3),
        TableColumn("empty", 7, right=True, drop=5),
        TableColumn("lag", 8, right=True),
        TableColumn("most lag", 8, right=True, drop=2),
        TableColumn("errors", 12, grow=1, drop=1),
    )
    orders: ClassVar = (
        ("l", "lag", lambda each: each.lag or -1),
        ("w", "written", lambda each: each.produced.records),
        ("r", "read", lambda each: each.fetched.records),
        ("b", "bytes", lambda each: each.produced.bytes + each.fetched.bytes),
        ("e", "errors", lambda each: sum(number for _, number in each.errors)),
        ("s", "last seen", lambda each: each.last_at),
    )

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session, "topics")

    def things(self) -> list[TopicSummary]:
        """See `OverviewView`."""
        rows, matching = self.session.overviews.topics.rows(self.session.now), self.session.matching
        return [
            each for each in rows if matching is None or not matching.topics.isdisjoint((each.topic, each.topic_id))
        ]

    def unlisted(self) -> tuple[int, str]:
        """See `OverviewView`."""
        return self.session.overviews.topics.evicted, "inactive topics"

    def key(self, thing: TopicSummary) -> int:
        """See `OverviewView`; a topic's first row stays, its name may become known later."""
        return thing.first_row if thing.topic is None else hash(thing.topic)

    def cells(self, thing: TopicSummary) -> Sequence[Cell]:
        """See `OverviewView`."""
        lag = thing.lag
        return [
            [(_name(thing), "topic")],
            *self._traffic(thing.produced),
            *self._traffic(thing.fetched),
            count(thing.fetched.empty, "dim"),
            [] if lag is None else [(f"{lag:,}", "warning" if lag else "")],
            [] if thing.lag_max is None else [(f"{thing.lag_max:,}", "dim")],
            [(names_and_counts(thing.errors), "error")],
        ]

    def _traffic(self, traffic: Traffic) -> list[Cell]:
        shown = traffic.minute if self.session.source.live else traffic.all_time
        return [
            count(traffic.records),
            [(f"{traffic.records_rate:,.0f}" if traffic.records_rate else "", "")],
            [(bars(squeezed(shown, _BARS), _BARS), "bar")],
            [(size(traffic.bytes) if traffic.bytes else "", "")],
        ]

    def told(self, thing: TopicSummary) -> Text:
        """See `OverviewView`."""
        topics, name = self.session.overviews.topics, thing.topic or thing.topic_id or ""
        readers = (f"{_reader(each)} {each.lag:,} (most {each.lag_max:,})" for each in topics.readers(name)[:_MOST])
        clients = (_client(each) for each in topics.clients(name)[:_MOST])
        parts = (_part(each) for each in topics.partitions(name)[:_MOST])
        return lines(
            ("topic", f"{_name(thing)}  {safe(thing.topic_id or '')}".strip()),
            ("partitions", f"{thing.partitions:,} seen, {thing.producers:,} producers, {thing.consumers:,} consumers"),
            ("written", _summed(thing.produced, "requests")),
            ("read", _summed(thing.fetched, "responses")),
            ("lag", ", ".join(readers)),
            ("clients", "; ".join(clients)),
            ("by partition", "  ".join(parts)),
            ("errors", names_and_counts(thing.errors)),
        )

    def open(self, thing: TopicSummary) -> None:
        """See `OverviewView`."""
        if thing.topic is not None:
            self.narrow(f"topic={quoted(thing.topic)}")
        else:
            self.narrow(f"topic_id={quoted(thing.topic_id or '')}")


def _name(thing: TopicSummary) -> str:
    return safe(thing.topic or thing.topic_id or "?")


def _reader(reader: ReaderLag) -> str:
    return f"group {safe(reader.name)}" if reader.is_group else safe(reader.name)


def _client(client: TopicClient) -> str:
    """``shop at 10.0.0.1 (group billing) writes 12 reads 3``."""
    group = f" (group {safe(client.group)})" if client.group else ""
    does = [f"writes {client.produced_records:,}"] if client.produced_requests else []
    does += [f"reads {client.fetched_records:,}"] if client.fetched_responses else []
    return f"{safe(client.client_id or '(none)')} at {safe(client.host)}{group} {' '.join(does)}".rstrip()


def _part(part: PartitionSummary) -> str:
    """``[0] 1.2 KB in, 3.4 KB out, lag 7``."""
    said = [f"{size(part.produced_bytes)} in"] if part.produced_bytes else []
    said += [f"{size(part.fetched_bytes)} out"] if part.fetched_bytes else []
    said += [f"lag {part.lag:,}"] if part.lag else []
    return f"[{part.partition}] {', '.join(said)}".rstrip()


def _summed(traffic: Traffic, frames: str) -> str:
    if not traffic.requests:
        return ""
    codecs = names_and_counts(traffic.compression)
    each = f", {traffic.records / traffic.batches:,.1f} records per batch" if traffic.batches else ""
    asked = f"{traffic.requests:,} {frames} ({traffic.empty:,} empty)"
    counted = f"{traffic.records:,} records, {size(traffic.bytes)} in {asked}, {traffic.batches:,} batches{each}"
    return counted + (f", {codecs}" if codecs else "")
