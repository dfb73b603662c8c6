"""The subjects of schemas, and whether they belong to the topics whose records use these schemas.

Source: Confluent's TopicNameStrategy (``TOPIC-key``, ``TOPIC-value``), RecordNameStrategy and TopicRecordNameStrategy.
"""

from __future__ import annotations

import re

from dissectors.values import DecodedPart

_CONTEXT = re.compile(r":\.[^:]*:")
_OTHER_PART = {"key": "value", "value": "key"}


def has_own_subject(part: DecodedPart) -> bool:
    """Whether the schema of a key or value has the subject of its topic and part."""
    return f"{part.topic}-{part.part}" in _subjects(part)


def has_foreign_subject(part: DecodedPart) -> bool:
    """Whether all subjects of a key's or value's schema belong to topics that do not resemble its own."""
    topics = [_topic_in_subject(subject) for subject in _subjects(part)]
    return bool(topics) and all(topic and not _are_similar(topic, part.topic or "") for topic in topics)


def has_swapped_subject(part: DecodedPart) -> bool:
    """Whether the schema of a key has only the subject of the topic's values, or vice versa.

    Schemas without a name, such as ``"string"``, do not count: a directory of schemas has one subject for each.
    """
    return part.value.type is not None and _subjects(part) == [f"{part.topic}-{_OTHER_PART[part.part]}"]


def _subjects(part: DecodedPart) -> list[str]:
    return [] if part.schema is None else [_CONTEXT.sub("", subject, count=1) for subject in part.schema.subjects]


def _topic_in_subject(subject: str) -> str | None:
    """Return the topic in a subject; None if the subject is not named after a topic."""
    topic, dash, part = subject.rpartition("-")
    return topic if dash and part in _OTHER_PART else None


def _are_similar(first: str, second: str) -> bool:
    return first in second or second in first
