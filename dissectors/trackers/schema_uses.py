"""SchemaUses: the schemas of the keys and values of each topic, and which records differ from the others."""

from __future__ import annotations

from dataclasses import dataclass, field

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RecordsDecoded
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.subjects import has_own_subject
from dissectors.values import DecodedPart, ProblemKind, Schema, SchemaKey

_MAX_TOPICS = 10_000
_MAX_SCHEMAS = 32

#: This many records with a known schema show that a topic has schemas; this many with the same unknown id show that the
#: id is no coincidence.
MIN_RECORDS = 3


@dataclass(slots=True)
class PartSchemas:
    """The schemas of the keys, or of the values, of a topic.

    Attributes:
        used: The schemas that records name and decode with, without the schemas they refer to.
        decoded: The number of these records.
        has_own_subject: Whether one of them has the subject of its topic.
        unregistered: The number of records for each schema that nobody registered.
    """

    used: BoundedDict[SchemaKey, Schema] = field(default_factory=lambda: BoundedDict(_MAX_SCHEMAS))
    decoded: int = 0
    has_own_subject: bool = False
    unregistered: BoundedDict[SchemaKey, int] = field(default_factory=lambda: BoundedDict(_MAX_SCHEMAS))

    @property
    def is_established(self) -> bool:
        """Whether enough records have a known schema."""
        return self.decoded >= MIN_RECORDS


@tracker(events=(RecordsDecoded,))
class SchemaUses:
    """The schemas that the records of a run use.

    Attributes:
        new: The keys and values of the latest frame with a schema that their topic did not use before, each with the
            schemas that the topic had used.
    """

    def __init__(self) -> None:
        self.new: list[tuple[DecodedPart, dict[SchemaKey, Schema]]] = []
        self._parts: BoundedDict[tuple[str | None, str], PartSchemas] = BoundedDict(_MAX_TOPICS)

    def for_part(self, part: DecodedPart) -> PartSchemas:
        """Return the schemas of the keys, or of the values, of this record's topic."""
        return self._parts.touch((part.topic, part.part), PartSchemas)

    def observe(self, event: RecordsDecoded, connection: ConnectionState) -> None:
        """Count the schemas of a frame's records."""
        self.new = []
        for part in event.parts:
            key, problem = part.value.schema, part.value.problem
            if key is None or part.topic is None:
                continue
            schemas = self.for_part(part)
            if part.schema is None:
                if problem is not None and problem.kind is ProblemKind.NOT_REGISTERED:
                    schemas.unregistered[key] = schemas.unregistered.get(key, 0) + 1
            elif problem is None:
                if key not in schemas.used:
                    self.new.append((part, dict(schemas.used)))
                schemas.used[key] = part.schema
                schemas.decoded += 1
                schemas.has_own_subject = schemas.has_own_subject or has_own_subject(part)
