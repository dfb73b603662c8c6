"""Rules that need days of traffic or many connections at once: the offline analysis says them, over traces."""

from __future__ import annotations

from dataclasses import dataclass

from dissectors.findings import Severity


@dataclass(frozen=True, slots=True)
class OfflineRule:
    """A rule of the offline analysis: its code is taken, and no live event fires it."""

    code: str
    name: str
    severity: Severity
    blame: str
    summary: str


OFFLINE_RULES = (
    OfflineRule(
        "C018", "connection-per-request", Severity.WARNING, "client",
        "Checks that clients keep their connections: one for every request or two costs a handshake each time.",
    ),
    OfflineRule(
        "M008", "near-limit", Severity.INFO, "client",
        "Says which frames are over four fifths of a size limit that the cluster was seen to enforce.",
    ),
    OfflineRule(
        "R026", "tiny-batches", Severity.WARNING, "client",
        "Checks that producers batch: a record per batch at a high rate wastes most of the broker's time.",
    ),
    OfflineRule(
        "R027", "schema-id-missing", Severity.INFO, "client",
        "Says which records lack the schema id that the other records of their topic begin with.",
    ),
    OfflineRule(
        "S009", "metadata-storm", Severity.WARNING, "client",
        "Checks that Metadata is asked no more often than clients refresh it, and not for all topics.",
    ),
    OfflineRule(
        "S031", "busy-poll", Severity.WARNING, "client",
        "Checks that consumers let the broker wait: empty fetches with max_wait_ms near 0 at a high rate burn CPU.",
    ),
    OfflineRule(
        "S036", "throttled", Severity.WARNING, "broker",
        "Says which clients a quota throttled, and for how long in sum.",
    ),
    OfflineRule(
        "S044", "telemetry-noise", Severity.INFO, "client",
        "Says which clients offer telemetry again and again to brokers that refuse it.",
    ),
    OfflineRule(
        "S047", "not-enough-replicas", Severity.WARNING, "broker",
        "Checks that partitions have the replicas in sync that their producers ask for.",
    ),
    OfflineRule(
        "S048", "default-client-id", Severity.INFO, "client",
        "Says which clients go by their library's default client id, so that nobody can find them.",
    ),
    OfflineRule(
        "S050", "retry-storm", Severity.WARNING, "client",
        "Checks that a request that failed with a retriable error is repeated with a pause, not as fast as it can be.",
    ),
)  # fmt: skip
