"""Topics: records written and read, and the lag of readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text

from kproxy.browse.overviews.topic import PartitionSummary, ReaderLag, TopicClient, TopicSummary, Traffic
from kproxy.browse.session import BrowseSession
from kproxy.trace.formatting import duration, safe, size
from kproxy.tui.overview import OverviewView, bars, count, lines, names_and_counts, quoted, squeezed, took
from kproxy.tui.table import Cell, TableColumn

_BARS = 14
#: Most readers, clients and partitions that are shown for a topic.
_MOST = 30


class TopicView(OverviewView[TopicSummary]):
    """See the module."""

    title: ClassVar[str] = "Topics"
    about: ClassVar[str] = (
        "Each row is a topic: records written and read, per second and in total. Lag comes from Fetch responses: how"
        " many records are between a reader's position and the high watermark, for the slowest reader. Behind is how"
        " old the records are that it gets, by their timestamps; delivery is the last time from Produce to Fetch, if"
        " both passed here. Empty are fetches without records. Enter shows its frames."
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
        TableColumn("behind", 8, right=True, drop=8),
        TableColumn("delivery", 8, right=True, drop=9),
        TableColumn("errors", 12, grow=1, drop=1),
    )
    orders: ClassVar = (
        ("l", "lag", lambda each: each.lag or -1),
        ("t", "behind", lambda each: each.age_ms or -1),
        ("w", "written", lambda each: each.produced.records),
        ("r", "read", lambda each: each.fetched.records),
        ("b", "bytes", lambda each: each.produced.bytes + each.fetched.bytes),
        ("e", "errors", lambda each: sum(number for _, number in each.errors)),
        ("s", "last seen", lambda each: each.last_at),
    )

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session, "topics")

    def items(self) -> list[TopicSummary]:
        """See `OverviewView`."""
        rows, matching = self.session.overviews.topics.rows(self.session.now), self.session.matching
        return [
            each for each in rows if matching is None or not matching.topics.isdisjoint((each.topic, each.topic_id))
        ]

    def unlisted(self) -> tuple[int, str]:
        """See `OverviewView`."""
        return self.session.overviews.topics.evicted, "inactive topics"

    def key(self, item: TopicSummary) -> int:
        """Return the topic's first row, which is stable; its name may become known later."""
        return item.first_row if item.topic is None else hash(item.topic)

    def cells(self, item: TopicSummary) -> Sequence[Cell]:
        """See `OverviewView`."""
        lag = item.lag
        return [
            [(_name(item), "topic")],
            *self._traffic(item.produced),
            *self._traffic(item.fetched),
            count(item.fetched.empty, "dim"),
            [] if lag is None else [(f"{lag:,}", "warning" if lag else "")],
            [] if item.lag_max is None else [(f"{item.lag_max:,}", "dim")],
            [] if item.age_ms is None else [(_age(item.age_ms), "")],
            took(item.delivery_us),
            [(names_and_counts(item.errors), "error")],
        ]

    def _traffic(self, traffic: Traffic) -> list[Cell]:
        listed = traffic.minute if self.session.source.live else traffic.all_time
        return [
            count(traffic.records),
            [(f"{traffic.records_rate:,.0f}" if traffic.records_rate else "", "")],
            [(bars(squeezed(listed, _BARS), _BARS), "bar")],
            [(size(traffic.bytes) if traffic.bytes else "", "")],
        ]

    def item_text(self, item: TopicSummary) -> Text:
        """See `OverviewView`."""
        topics, name = self.session.overviews.topics, item.topic or item.topic_id or ""
        readers = (_reader_text(each) for each in topics.readers(name)[:_MOST])
        clients = (_client(each) for each in topics.clients(name)[:_MOST])
        parts = (_partition_text(each) for each in topics.partitions(name)[:_MOST])
        return lines(
            ("topic", f"{_name(item)}  {safe(item.topic_id or '')}".strip()),
            ("partitions", f"{item.partitions:,} seen, {item.producers:,} producers, {item.consumers:,} consumers"),
            ("written", _summed(item.produced, "requests")),
            ("read", _summed(item.fetched, "responses")),
            ("lag", ", ".join(readers)),
            ("delivery", _delivery(item)),
            ("clients", "; ".join(clients)),
            ("by partition", "  ".join(parts)),
            ("errors", names_and_counts(item.errors)),
        )

    def open(self, item: TopicSummary) -> None:
        """See `OverviewView`."""
        if item.topic is not None:
            self.narrow(f"topic={quoted(item.topic)}")
        else:
            self.narrow(f"topic_id={quoted(item.topic_id or '')}")


def _name(item: TopicSummary) -> str:
    return safe(item.topic or item.topic_id or "?")


def _reader(reader: ReaderLag) -> str:
    return f"group {safe(reader.name)}" if reader.is_group else safe(reader.name)


def _reader_text(reader: ReaderLag) -> str:
    """``group billing 12 (most 40), 3.2 s behind by CreateTime``."""
    text = f"{_reader(reader)} {reader.lag:,} (most {reader.lag_max:,})"
    if reader.age_ms is not None:
        text += f", {_age(reader.age_ms)} behind by {'LogAppendTime' if reader.append_time else 'CreateTime'}"
    return text + (f", delivery {_delivery(reader)}" if reader.delivery_us is not None else "")


def _age(ms: int) -> str:
    """A duration; a record may be from the future, if clocks differ."""
    return f"-{duration(-ms * 1000)}" if ms < 0 else duration(ms * 1000)


def _delivery(item: TopicSummary | ReaderLag | PartitionSummary) -> str:
    """``3.1 ms (most 20.0 ms)``: the time from Produce to Fetch."""
    if item.delivery_us is None or item.delivery_max_us is None:
        return ""
    return f"{duration(item.delivery_us)} (most {duration(item.delivery_max_us)})"


def _client(client: TopicClient) -> str:
    """``shop at 10.0.0.1 (group billing) writes 12 reads 3``."""
    group = f" (group {safe(client.group)})" if client.group else ""
    does = [f"writes {client.produced_records:,}"] if client.produced_requests else []
    does += [f"reads {client.fetched_records:,}"] if client.fetched_responses else []
    return f"{safe(client.client_id or '(none)')} at {safe(client.host)}{group} {' '.join(does)}".rstrip()


def _partition_text(part: PartitionSummary) -> str:
    """``[0] 1.2 KB in, 3.4 KB out, lag 7``."""
    text = [f"{size(part.produced_bytes)} in"] if part.produced_bytes else []
    text += [f"{size(part.fetched_bytes)} out"] if part.fetched_bytes else []
    text += [f"lag {part.lag:,}"] if part.lag else []
    text += [f"delivery {_delivery(part)}"] if part.delivery_us is not None else []
    return f"[{part.partition}] {', '.join(text)}".rstrip()


def _summed(traffic: Traffic, frames: str) -> str:
    if not traffic.requests:
        return ""
    codecs = names_and_counts(traffic.compression)
    each = (
        f", {(traffic.records + traffic.refused_records) / traffic.batches:,.1f} records per batch"
        if traffic.batches
        else ""
    )
    requests = f"{traffic.requests:,} {frames} ({traffic.empty:,} empty)"
    refused = f" ({traffic.refused_records:,} more refused, {size(traffic.refused_bytes)})" * bool(
        traffic.refused_records
    )
    counted = f"{traffic.records:,} records, {size(traffic.bytes)}{refused} in {requests}"
    counted += f", {traffic.batches:,} batches{each}"
    return counted + (f", {codecs}" if codecs else "")
