"""Stored batches: where batches of format 2 stand in the partitions' logs, as producers and fetches of late say."""

from __future__ import annotations

from typing import Any, NamedTuple

from dissectors.conversation import Conversation
from dissectors.events import ResponseReceived
from dissectors.ledgers import Bounded, ledger
from dissectors.ledgers.compacted import Compacted
from dissectors.ledgers.fetches import Fetches
from dissectors.ledgers.partitions import Place, topic_of
from dissectors.ledgers.record_data import Part, Seen, first_batch, record_data, sent
from dissectors.records.batch import HEADER
from dissectors.records.contents import Batch
from dissectors.triggers import Only

#: How long a batch is sure to stand where it was seen (ns): later it may have been compacted away, or the topic made
#: anew.
SOON = 10 * 1_000_000_000

_MOST_PARTITIONS = 2_000
_MOST_BATCHES = 16
_MOST_OF_A_FETCH = 8
_MAGIC = 16
_IRREGULAR = Only.IRREGULAR.value


class Stored(NamedTuple):
    """A batch in a log: its last offset, when it was seen there, and its header as produced, if that was seen."""

    last_offset: int
    at: int
    produced: bytes | None


class Skipped(NamedTuple):
    """A fetch that begins behind the batch with the offset that was asked for."""

    part: Part
    offset: int
    base_offset: int
    last_offset: int


class Rewritten(NamedTuple):
    """A batch that is fetched with other bytes than it was produced with; its place in the part."""

    part: Part
    nth: int
    produced: Batch


Log = dict[int, Stored]


@ledger(events=(ResponseReceived,), apis=("Produce", "Fetch"))
class StoredBatches:
    """The latest batches of the partitions of a run, by their base offsets, apart for each server.

    Of what is produced only the batches that `Seen` chooses: a server that is wrong there is so always. `skipped` and
    `rewritten` are what the latest response shows.
    """

    def __init__(self) -> None:
        self.skipped: list[Skipped] = []
        self.rewritten: list[Rewritten] = []
        self._logs: Bounded[tuple[str, Place], Log] = Bounded(_MOST_PARTITIONS)

    def holds(self, place: Place, conversation: Conversation) -> bool:
        """Whether batches of format 2 were seen in a partition."""
        return bool(self._logs.get(_key(place, conversation)))

    def hear(self, event: ResponseReceived, conversation: Conversation) -> None:
        """Take in where batches were written, or where they stand."""
        self.skipped, self.rewritten = [], []
        if event.message is None or not conversation.server:
            return
        if event.message.api == "Produce":
            self._produced(event, conversation)
        elif parts := record_data(event, conversation).parts:
            offsets = conversation.recall(Fetches).offsets(event.asked or {})
            for part in parts:
                self._fetched(part, offsets.get(part.place), event, conversation)
            if self.skipped or self.rewritten:
                conversation.marks |= _IRREGULAR

    def _fetched(self, part: Part, offset: int | None, event: ResponseReceived, conversation: Conversation) -> None:
        batches = part.batches
        if not batches or batches[0].magic != 2:
            return
        log = self._logs.touch(_key(part.place, conversation), dict)
        first = batches[0].base_offset
        if offset is not None and offset < first:
            for base_offset, (last_offset, at, _) in log.items():
                if base_offset <= offset <= last_offset < first and event.at - at < SOON:
                    self.skipped.append(Skipped(part, offset, base_offset, last_offset))
        for index, batch in enumerate(batches[-_MOST_OF_A_FETCH:], max(0, len(batches) - _MOST_OF_A_FETCH)):
            before = log.get(batch.base_offset)
            header = before.produced if before is not None else None
            if before is not None and header is not None:
                produced = first_batch(header)
                if produced is not None and produced.crc != batch.crc:
                    header = None
                    if event.at - before.at < SOON:
                        self.rewritten.append(Rewritten(part, index, produced))
            _remember(log, batch.base_offset, Stored(batch.last_offset, event.at, header))

    def _produced(self, event: ResponseReceived, conversation: Conversation) -> None:
        message, asked = event.message, event.asked
        if asked is None or message is None:
            return
        compacted = conversation.cluster.recall(Compacted).topics
        seen = conversation.recall(Seen)
        for topic in message.body.get("responses", ()):
            name = topic_of(topic)
            for row in topic.get("partition_responses", ()):
                base_offset = row.get("base_offset", -1)
                if row.get("error_code") or base_offset < 0:
                    conversation.marks |= _IRREGULAR
                elif seen.chooses(StoredBatches, name):
                    self._written((name, row.get("index", 0)), base_offset, asked, event, conversation)
        if compacted:
            conversation.marks |= _IRREGULAR

    def _written(
        self, place: Place, base_offset: int, asked: dict[str, Any], event: ResponseReceived, conversation: Conversation
    ) -> None:
        records = sent(asked).get(place)
        if records is not None and len(records) >= HEADER.size and records[_MAGIC] == 2:
            header = bytes(records[: HEADER.size])
            last_offset = base_offset + max(0, int.from_bytes(header[-4:], "big", signed=True) - 1)
            log = self._logs.touch(_key(place, conversation), dict)
            _remember(log, base_offset, Stored(last_offset, event.at, header))


def _remember(log: Log, base_offset: int, stored: Stored) -> None:
    log[base_offset] = stored
    if len(log) > _MOST_BATCHES:
        del log[next(iter(log))]


def _key(place: Place, conversation: Conversation) -> tuple[str, Place]:
    topic, partition = place
    return conversation.server, (conversation.cluster.topic_names.get(topic, topic), partition)
