"""Topics: their traffic, readers, clients and partitions."""

from __future__ import annotations

from kproxy.browse.facts.texts import Facts, names_and_counts
from kproxy.browse.overviews.topic import PartitionSummary, ReaderLag, TopicClient, TopicSummary, Traffic
from kproxy.browse.overviews.topic_counts import SLOW_AFTER_NS
from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.trace.formatting import duration, size
from kproxy.trace.timestamps import timestamp

#: Records that have not been read for this long (ns) are shown as unread.
_UNREAD_AFTER_NS = 60_000_000_000


def rows_in_view(session: BrowseSession, view: SessionView) -> list[TopicSummary]:
    """Return the topics that match the view's filter."""
    rows, matching = session.overviews.topics.rows(session.live_now), view.matching
    return [row for row in rows if matching is None or not matching.topics.isdisjoint((row.topic, row.topic_id))]


def unread_partitions(session: BrowseSession, item: TopicSummary) -> list[PartitionSummary]:
    """Return the partitions with records that no reader has fetched for a minute, those unread longest first.

    Returns none if the topic has no readers. A consumer that has paused a partition looks the same as one that does not
    fetch it for any other reason.
    """
    if not item.fetched.requests:
        return []
    partitions = session.overviews.topics.partitions(item.topic or item.topic_id or "")
    waiting = [(partition.unread_since, partition) for partition in partitions if partition.unread_since is not None]
    return [
        unread_partition
        for since, unread_partition in sorted(waiting, key=lambda row: row[0])
        if session.now - since >= _UNREAD_AFTER_NS
    ]


def name(item: TopicSummary) -> str:
    """Return the name of a topic, or its id if the name is unknown."""
    return item.topic or item.topic_id or "?"


def facts(session: BrowseSession, item: TopicSummary, max_items: int) -> Facts:
    """Return labelled facts about a topic, with at most `max_items` readers, clients and partitions."""
    topics, key = session.overviews.topics, item.topic or item.topic_id or ""
    return [
        *_totals(item),
        ("lag", ", ".join(_describe_reader(reader) for reader in topics.readers(key)[:max_items])),
        ("delivery", _describe_delivery(item)),
        ("clients", "; ".join(_describe_client(client) for client in topics.clients(key)[:max_items])),
        ("by partition", "  ".join(_describe_partition(partition) for partition in topics.partitions(key)[:max_items])),
        *_unread_and_errors(session, item, max_items),
    ]


def separate_facts(session: BrowseSession, item: TopicSummary, max_items: int) -> Facts:
    """Return the facts about a topic with one for each reader, client and partition, the largest first.

    Readers and partitions are sorted by lag, clients by bytes. Of each, at most `max_items` are returned.
    """
    topics, key = session.overviews.topics, item.topic or item.topic_id or ""
    clients = sorted(topics.clients(key), key=lambda client: -client.produced_bytes - client.fetched_bytes)
    partitions = sorted(topics.partitions(key), key=_partition_size, reverse=True)
    readers = topics.readers(key)[:max_items]
    return [
        *_totals(item),
        *((f"lag of {_reader_name(reader)}", describe_lag(reader)) for reader in readers),
        ("delivery", _describe_delivery(item)),
        *((f"client {_client_name(client)}", describe_client_traffic(client)) for client in clients[:max_items]),
        *((f"partition {entry.partition}", _describe_partition_traffic(entry)) for entry in partitions[:max_items]),
        *_unread_and_errors(session, item, max_items),
    ]


def _partition_size(summary: PartitionSummary) -> tuple[int, int]:
    return summary.lag or 0, summary.produced_bytes + summary.fetched_bytes


def _totals(item: TopicSummary) -> Facts:
    return [
        ("topic", name(item)),
        ("topic id", item.topic_id or ""),
        ("partitions", f"{item.partitions:,} seen, {item.producers:,} producers, {item.consumers:,} consumers"),
        ("written", _describe_traffic(item.produced, "requests")),
        ("read", _describe_traffic(item.fetched, "responses")),
    ]


def _unread_and_errors(session: BrowseSession, item: TopicSummary, max_items: int) -> Facts:
    return [
        (
            "not read",
            ", ".join(
                _describe_unread(summary, session.now) for summary in unread_partitions(session, item)[:max_items]
            ),
        ),
        ("errors", names_and_counts(item.errors)),
    ]


def _describe_reader(reader: ReaderLag) -> str:
    """Describe a reader, e.g. ``group billing 12 (most 40), its last records read 3.2 s after CreateTime``."""
    return f"{_reader_name(reader)} {describe_lag(reader)}"


def _reader_name(reader: ReaderLag) -> str:
    return f"{'group ' if reader.is_group else ''}{reader.name}"


def describe_lag(reader: ReaderLag) -> str:
    """Describe the lag of a reader, e.g. ``12 (most 40), its last records read 3.2 s after CreateTime``."""
    text = f"{reader.lag:,} (most {reader.lag_max:,})"
    if reader.stored_since:
        text += f", {reader.stored_since:,} of them written since it last got records"
    times = []
    if reader.age_ms is not None:
        times.append(f"{age_text(reader.age_ms)} after {'LogAppendTime' if reader.append_time else 'CreateTime'}")
    if reader.delivery_us is not None:
        times.append(f"{_describe_delivery(reader)} after Produce")
    return text + (f", its last records read {', '.join(times)}" if times else "")


def describe_slowness(reader: ReaderLag, now: int) -> str:
    """Return why a reader is behind, if it is: it leaves much time between a response and its next Fetch."""
    since_last_ns = now - reader.last_at if reader.stored_since and reader.last_at else 0
    idle_ns = max(reader.longest_idle_ns, since_last_ns)
    if not reader.lag or idle_ns < SLOW_AFTER_NS:
        return ""
    times = []
    if reader.longest_idle_ns >= SLOW_AFTER_NS:
        times.append(f"it took up to {duration(reader.longest_idle_ns // 1000)} from records to its next Fetch")
    if since_last_ns >= SLOW_AFTER_NS:
        times.append(f"it has not fetched for {duration(since_last_ns // 1000)}")
    since = reader.slow_since or reader.last_at
    return f"the client is slow since {timestamp(since)[11:23]} UTC, while records wait: {', and '.join(times)}"


def age_text(ms: int) -> str:
    """Return an age as text; it is negative if a record seems to come from the future because clocks differ."""
    return f"-{duration(-ms * 1000)}" if ms < 0 else duration(ms * 1000)


def _describe_delivery(item: TopicSummary | ReaderLag | PartitionSummary) -> str:
    """Return the time from Produce to Fetch, e.g. ``3.1 ms (most 20.0 ms)``."""
    if item.delivery_us is None or item.delivery_max_us is None:
        return ""
    return f"{duration(item.delivery_us)} (most {duration(item.delivery_max_us)})"


def _describe_client(client: TopicClient) -> str:
    """Describe a client: ``shop at 10.0.0.1 (group billing) writes 12 records, 3.1 KB, reads 3 records, 800 B``."""
    return f"{_client_name(client)} {describe_client_traffic(client)}".rstrip()


def _client_name(client: TopicClient) -> str:
    group = f" (group {client.group})" if client.group else ""
    return f"{client.client_id or '(none)'} at {client.host}{group}"


def describe_client_traffic(client: TopicClient) -> str:
    """Describe what a client writes to a topic, and reads from it."""
    traffic = []
    if client.produced_requests:
        traffic.append(f"writes {client.produced_records:,} records, {size(client.produced_bytes)}")
    if client.fetched_responses:
        traffic.append(f"reads {client.fetched_records:,} records, {size(client.fetched_bytes)}")
    return ", ".join(traffic)


def _describe_partition(summary: PartitionSummary) -> str:
    """Describe a partition, e.g. ``[0] 1.2 KB in, 3.4 KB out, lag 7``."""
    return f"[{summary.partition}] {_describe_partition_traffic(summary)}".rstrip()


def _describe_partition_traffic(summary: PartitionSummary) -> str:
    texts = [f"{size(summary.produced_bytes)} in"] if summary.produced_bytes else []
    texts += [f"{size(summary.fetched_bytes)} out"] if summary.fetched_bytes else []
    texts += [f"lag {summary.lag:,}"] if summary.lag else []
    texts += [f"delivery {_describe_delivery(summary)}"] if summary.delivery_us is not None else []
    return ", ".join(texts)


def _describe_unread(summary: PartitionSummary, now: int) -> str:
    """Describe how much has not been read, and for how long, e.g. ``[3] 1.2 KB in 4.2 min``."""
    unread_us = (now - (summary.unread_since or now)) // 1000
    return f"[{summary.partition}] {size(summary.unread_bytes)} in {duration(unread_us)}"


def _describe_traffic(traffic: Traffic, frames: str) -> str:
    if not traffic.requests:
        return ""
    codecs = names_and_counts(traffic.compression)
    batch_size_text = (
        f", {(traffic.records + traffic.refused_records) / traffic.batches:,.1f} records per batch"
        if traffic.batches
        else ""
    )
    requests = f"{traffic.requests:,} {frames} ({traffic.empty:,} empty)"
    refused = f" ({traffic.refused_records:,} more refused, {size(traffic.refused_bytes)})" * bool(
        traffic.refused_records
    )
    counted = f"{traffic.records:,} records, {size(traffic.bytes)}{refused} in {requests}"
    counted += f", {traffic.batches:,} batches{batch_size_text}"
    return counted + (f", {codecs}" if codecs else "")
