"""Whether a client works with the newest Kafka, which removed old API versions (KIP-896).

Source:
https://cwiki.apache.org/confluence/display/KAFKA/KIP-896%3A+Remove+old+client+protocol+API+versions+in+Kafka+4.0
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from dissectors.schemas import removed_versions

#: Most servers kept per API at which a client used an old version.
MOST_SERVERS = 8

#: The oldest client releases that KIP-896 guarantees to work, by software name (KIP-511). KafkaJS 1.15.0 is also one,
#: but it sends no name.
OLDEST_RELEASES = {
    "apache-kafka-java": "2.1.0",
    "librdkafka": "1.8.2",
    "sarama": "1.30.1",
    "kafka-python": "2.0.2",
}


class Kafka4Verdict(StrEnum):
    """Whether a client will work with the newest Kafka."""

    WORKS = "works"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class HighestVersions:
    """The highest version that a server has answered, by API key."""

    address: str
    highest: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Use:
    """How a client uses removed versions of an API.

    Attributes:
        version: The lowest of them; `row` is the last request with one.
        without_negotiation: It used one without sending ApiVersions first; the connection was seen from its start.
        uses_newer: It also uses versions that are not removed.
        refused_by: A server that already rejects it.
    """

    api: str
    api_key: int
    version: int
    row: int
    without_negotiation: bool = False
    uses_newer: bool = False
    refused_by: str | None = None
    servers: dict[str, HighestVersions] = field(default_factory=dict)

    @property
    def least(self) -> int | None:
        """The lowest version that is still supported, None if the API was removed."""
        return removed_versions.lowest_served().get(self.api_key)

    def sentence(self) -> str:
        """``uses Fetch v2, and Kafka 4.4.0 serves Fetch from v4 on``."""
        now = f"has no {self.api}" if self.least is None else f"serves {self.api} from v{self.least} on"
        return f"uses {self.api} v{self.version}, but Kafka {removed_versions.newest_release()} {now}"

    def assess(self, negotiates: bool) -> tuple[Kafka4Verdict, str]:
        """Return the verdict and its reason; `negotiates`: the client sends ApiVersions on some connection.

        A client that negotiates may use old versions only because its broker is old. It is known to lack newer ones if
        it uses none although the same server answers them for other clients.
        """
        if self.refused_by is not None:
            return Kafka4Verdict.REFUSED, f"{self.refused_by} already refuses it"
        least = self.least
        for server in self.servers.values():
            highest = server.highest.get(self.api_key, -1)
            if least is not None and highest >= least and not self.uses_newer:
                return Kafka4Verdict.REFUSED, f"{server.address} also serves v{highest}, which the client does not use"
        if negotiates:
            return Kafka4Verdict.UNKNOWN, "it negotiates, so it may use other versions with a newer broker"
        if self.without_negotiation:
            return Kafka4Verdict.REFUSED, "it does not negotiate versions (ApiVersions)"
        return Kafka4Verdict.UNKNOWN, "it is unknown whether it negotiates"


@dataclass(frozen=True, slots=True)
class OldUse:
    """A removed version that a client uses; `least` is the lowest supported one or None; `row` is a request with it."""

    api: str
    version: int
    least: int | None
    verdict: Kafka4Verdict
    row: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, its reason in a sentence, and the removed versions in use; those certain to fail come first."""

    verdict: Kafka4Verdict
    reason: str
    old: tuple[OldUse, ...] = ()


def judge(uses: list[Use], negotiates: bool, software: tuple[str | None, str | None]) -> Judgement:
    """Judge whether a client that uses these removed versions works with the newest Kafka.

    Args:
        uses: By API; empty if it uses no removed version.
        negotiates: Whether it sends ApiVersions on some connection.
        software: Software name and version that it sent (KIP-511).
    """
    in_kip = _named_in_kip(*software)
    if not uses:
        reason = f"Kafka {removed_versions.newest_release()} serves every version it uses"
        if in_kip is not None and not in_kip[2]:
            reason += f"; KIP-896 requires {in_kip[0]} {in_kip[1]} or later"
        return Judgement(Kafka4Verdict.WORKS, reason)
    assess = sorted(
        ((use, *use.assess(negotiates)) for use in uses),
        key=lambda each: (each[1] is not Kafka4Verdict.REFUSED, each[0].api),
    )
    use, verdict, why = assess[0]
    others = len(uses) - 1
    more = f" (and {others} more API{'s' * (others != 1)})" if others else ""
    reason = f"{use.sentence()}{more}; {why}"
    if verdict is Kafka4Verdict.UNKNOWN and in_kip is not None:
        reason += f" (KIP-896 requires {in_kip[0]} {in_kip[1]} or later{', which it is' if in_kip[2] else ''})"
    old = tuple(OldUse(use.api, use.version, use.least, verdict, use.row) for use, verdict, _ in assess)
    return Judgement(verdict, reason, old)


def _named_in_kip(name: str | None, version: str | None) -> tuple[str, str, bool] | None:
    """Return the library, its oldest working release, whether `version` is at least that; None if not in KIP-896."""
    if name is None or version is None:
        return None
    if (wrapped := re.search(r"rdkafka-([\d.]+)", version)) is not None:  # 2.16.1-rdkafka-2.16.0
        name, version = "librdkafka", wrapped[1]
    least = OLDEST_RELEASES.get(name)
    numbers = re.match(r"v?(\d{1,9}(?:\.\d{1,9}){1,3})", version)
    if least is None or numbers is None:
        return None
    return name, least, _numbers(numbers[1]) >= _numbers(least)


def _numbers(release: str) -> list[int]:
    return [int(number) for number in release.split(".")]
