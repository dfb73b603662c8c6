"""Rules that only `kproxy analyze` checks, because they need days of traffic or many connections at once."""

from __future__ import annotations

from dataclasses import dataclass

from dissectors.findings import Severity


@dataclass(frozen=True, slots=True)
class OfflineRule:
    """A rule of the offline analysis. It reserves its code; no event of the live inspection triggers it."""

    code: str
    name: str
    severity: Severity
    blame: str
    summary: str


OFFLINE_RULES = (
    OfflineRule(
        "C018", "connection-per-request", Severity.WARNING, "client",
        "Checks that clients reuse connections: a connection per one or two requests costs a handshake each time.",
    ),
    OfflineRule(
        "M008", "near-limit", Severity.INFO, "client",
        "Reports frames above 80 % of a size limit that the cluster was seen to enforce.",
    ),
    OfflineRule(
        "R026", "tiny-batches", Severity.WARNING, "client",
        "Checks that producers batch records: one record per batch at a high rate wastes most of the broker's time.",
    ),
    OfflineRule(
        "R027", "schema-id-missing", Severity.INFO, "client",
        "Reports records that lack the schema id with which other records of their topic begin.",
    ),
    OfflineRule(
        "S009", "metadata-storm", Severity.WARNING, "client",
        "Checks that clients do not request Metadata more often than they should refresh it, or for all topics.",
    ),
    OfflineRule(
        "S031", "busy-poll", Severity.WARNING, "client",
        "Checks that consumers let the broker wait: frequent empty fetches with max_wait_ms near 0 waste CPU.",
    ),
    OfflineRule(
        "S036", "throttled", Severity.WARNING, "broker",
        "Reports clients that a quota throttled, and for how long in total.",
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
        "S050", "retry-storm", Severity.WARNING, "client",
        "Checks that clients wait before they retry a request that failed with a retriable error.",
    ),
)  # fmt: skip
