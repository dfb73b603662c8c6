"""The oldest client releases that work with Kafka 4, which removed old API versions (KIP-896).

Source:
https://cwiki.apache.org/confluence/display/KAFKA/KIP-896%3A+Remove+old+client+protocol+API+versions+in+Kafka+4.0
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

#: By the name that a client sends (KIP-511). KafkaJS 1.15.0 also belongs here, but it sends no name.
OLDEST_RELEASES: Final = {
    "apache-kafka-java": "2.1.0",
    "librdkafka": "1.8.2",
    "sarama": "1.30.1",
    "kafka-python": "2.0.2",
}
#: The release of librdkafka in the version of a client that wraps it: 2.16.1-rdkafka-2.16.0.
WRAPPED_LIBRDKAFKA: Final = r"rdkafka-([\d.]+)"
#: The release in the version that a client sends.
RELEASE: Final = r"^v?(\d{1,9}(?:\.\d{1,9}){1,3})"


class ClientRequirement(NamedTuple):
    """A library that KIP-896 names, its oldest release that works, and whether a client is at least as new."""

    library: str
    release: str
    is_met: bool

    @property
    def sentence(self) -> str:
        """``KIP-896 requires sarama 1.30.1 or later``."""
        return f"KIP-896 requires {self.library} {self.release} or later"


def client_requirement(name: str | None, version: str | None) -> ClientRequirement | None:
    """Return what KIP-896 requires of a client that sends this name and version; None if the KIP does not name it."""
    if name is None or version is None:
        return None
    if (wrapped := re.search(WRAPPED_LIBRDKAFKA, version)) is not None:
        name, version = "librdkafka", wrapped[1]
    release = OLDEST_RELEASES.get(name)
    match = re.match(RELEASE, version)
    if release is None or match is None:
        return None
    return ClientRequirement(name, release, _release_numbers(match[1]) >= _release_numbers(release))


def _release_numbers(release: str) -> list[int]:
    return [int(number) for number in release.split(".")]
