"""Rules that `kproxy analyze` checks over a whole fleet.

Those without a rule of the live inspection need days of traffic or many connections at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from dissectors.findings import Severity


@dataclass(frozen=True, slots=True)
class OfflineRule:
    """A rule over a fleet. With `live`, a rule of the live inspection with the same code and name finds it, too."""

    code: str
    name: str
    severity: Severity
    blame: str
    summary: str = ""
    live: bool = False


FLEET_RULES = (
    OfflineRule(
        "C018", "connection-per-request", Severity.WARNING, "client", live=True,
    ),
    OfflineRule(
        "M008", "near-limit", Severity.INFO, "client",
        "Reports frames above 80 % of a size limit that the cluster was seen to enforce.",
    ),
    OfflineRule(
        "R026", "tiny-batches", Severity.WARNING, "client", live=True,
    ),
    OfflineRule(
        "R027", "schema-id-missing", Severity.INFO, "client",
        "Reports records that lack the schema id with which other records of their topic begin.",
    ),
    OfflineRule(
        "S009", "metadata-storm", Severity.WARNING, "client", live=True,
    ),
    OfflineRule(
        "S031", "busy-poll", Severity.WARNING, "client", live=True,
    ),
    OfflineRule(
        "S036", "throttled", Severity.WARNING, "broker", live=True,
    ),
    OfflineRule(
        "S044", "telemetry-noise", Severity.INFO, "client",
        "Reports clients that repeatedly offer telemetry to brokers that refuse it.",
    ),
    OfflineRule(
        "S047", "not-enough-replicas", Severity.WARNING, "broker",
        "Checks that partitions have enough in-sync replicas for their producers.",
    ),
    OfflineRule(
        "S048", "default-client-id", Severity.INFO, "client",
        "Reports clients that use their library's default client id, so that they cannot be distinguished.",
    ),
    OfflineRule(
        "S050", "retry-storm", Severity.WARNING, "client", live=True,
    ),
)  # fmt: skip

#: Those that only the analysis checks.
OFFLINE_RULES = tuple(each for each in FLEET_RULES if not each.live)
