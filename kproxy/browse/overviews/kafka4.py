"""Whether a client works with the newest Kafka, which removed old API versions (KIP-896).

See `dissectors.schemas.removed_versions` and `dissectors.schemas.oldest_clients` for what Kafka removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from dissectors.schemas import removed_versions
from dissectors.schemas.oldest_clients import client_requirement

#: Maximum number of servers kept per API on which a client used a removed version.
MAX_SERVERS = 8


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
class RemovedApiUse:
    """How a client uses removed versions of an API.

    Attributes:
        version: The lowest removed version used; `row` is the last request with a removed version.
        without_negotiation: It used one without sending ApiVersions first, on a connection seen from its start.
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
        """Return e.g. ``uses Fetch v2, but Kafka 4.4.0 serves Fetch from v4 on``."""
        offer = f"has no {self.api}" if self.least is None else f"serves {self.api} from v{self.least} on"
        return f"uses {self.api} v{self.version}, but Kafka {removed_versions.newest_release()} {offer}"

    def assess(self, negotiates: bool) -> tuple[Kafka4Verdict, str]:
        """Return the verdict and its reason; `negotiates`: the client sends ApiVersions on some connection.

        A client that negotiates may use old versions only because its broker is old. It is known to lack newer ones if
        it uses none although the same server answers them for other clients.
        """
        if self.refused_by is not None:
            return Kafka4Verdict.REFUSED, f"{self.refused_by} already refuses it"
        lowest = self.least
        for server in self.servers.values():
            highest = server.highest.get(self.api_key, -1)
            if lowest is not None and highest >= lowest and not self.uses_newer:
                return Kafka4Verdict.REFUSED, f"{server.address} also serves v{highest}, which the client does not use"
        if negotiates:
            return Kafka4Verdict.UNKNOWN, "it negotiates, so it may use other versions with a newer broker"
        if self.without_negotiation:
            return Kafka4Verdict.REFUSED, "it does not negotiate versions (ApiVersions)"
        return Kafka4Verdict.UNKNOWN, "it is unknown whether it negotiates"


@dataclass(frozen=True, slots=True)
class RemovedVersion:
    """A removed version that a client uses; `least` is the lowest supported one, if any; `row` is a request with it."""

    api: str
    version: int
    least: int | None
    verdict: Kafka4Verdict
    row: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, its reason in a sentence, and the removed versions in use; those that will surely fail come first."""

    verdict: Kafka4Verdict
    reason: str
    old: tuple[RemovedVersion, ...] = ()


def judge(uses: list[RemovedApiUse], negotiates: bool, software: tuple[str | None, str | None]) -> Judgement:
    """Judge whether a client that uses these removed versions works with the newest Kafka.

    Args:
        uses: The removed versions in use, by API.
        negotiates: Whether it sends ApiVersions on some connection.
        software: The software name and version it sent (KIP-511).
    """
    requirement = client_requirement(*software)
    if not uses:
        reason = f"Kafka {removed_versions.newest_release()} serves every version it uses"
        if requirement is not None and not requirement.is_met:
            reason += f"; {requirement.sentence}"
        return Judgement(Kafka4Verdict.WORKS, reason)
    assessments = sorted(
        ((use, *use.assess(negotiates)) for use in uses),
        key=lambda item: (item[1] is not Kafka4Verdict.REFUSED, item[0].api),
    )
    use, verdict, verdict_reason = assessments[0]
    more_apis = len(uses) - 1
    more_text = f" (and {more_apis} more API{'s' * (more_apis != 1)})" if more_apis else ""
    reason = f"{use.sentence()}{more_text}; {verdict_reason}"
    if verdict is Kafka4Verdict.UNKNOWN and requirement is not None:
        reason += f" ({requirement.sentence}{', which it is' if requirement.is_met else ''})"
    old = tuple(RemovedVersion(use.api, use.version, use.least, verdict, use.row) for use, verdict, _ in assessments)
    return Judgement(verdict, reason, old)
