"""Rules that `kproxy analyze` checks over a whole fleet.

Rules that the live inspection does not have need days of traffic or many connections at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dissectors.findings import Severity


@dataclass(frozen=True, slots=True)
class OfflineRule:
    """A rule over a fleet. If `live` is set, the live inspection has a rule with the same code and name.

    `details` are the sections of the rule's page after the summary, as Markdown.
    """

    code: str
    name: str
    severity: Severity
    blame: str
    summary: str = ""
    live: bool = False
    details: str = ""


#: The default client ids of libraries, as a regular expression: Java, librdkafka, Sarama, franz-go, KafkaJS,
#: kafka-python, aiokafka, ruby-kafka, kafka-node.
DEFAULT_CLIENT_IDS: Final = (
    r"^(?:(?:producer|consumer|adminclient)-[0-9]+|rdkafka|sarama|kgo|kafkajs|ruby-kafka|kafka-node-client"
    r"|(?:kafka-python|aiokafka)-(?:(?:producer|consumer)-[0-9]+|[0-9][0-9a-z.]*))$"
)

FLEET_RULES = (
    OfflineRule(
        "C018", "connection-per-request", Severity.WARNING, "client", live=True,
    ),
    OfflineRule(
        "M008", "near-limit", Severity.INFO, "client", live=True,
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
        "S044", "telemetry-noise", Severity.INFO, "client", live=True,
    ),
    OfflineRule(
        "S047", "not-enough-replicas", Severity.WARNING, "broker",
        "Checks that partitions have enough in-sync replicas for their producers.",
        details=(
            "Live, E002 reports the refused producer with NOT_ENOUGH_REPLICAS.\n\n"
            "## Why it matters\n"
            "With acks=all, nobody can write to a partition that has fewer in-sync replicas than min.insync.replicas."
            "\n\n## Usual cause\n"
            "A broker that is down or behind, or min.insync.replicas equal to the replication factor: then a restart "
            "of one broker is enough."
        ),
    ),
    OfflineRule(
        "S048", "default-client-id", Severity.INFO, "client", live=True,
    ),
    OfflineRule(
        "S050", "retry-storm", Severity.WARNING, "client", live=True,
    ),
)  # fmt: skip

#: The rules that only the analysis checks.
OFFLINE_RULES = tuple(rule for rule in FLEET_RULES if not rule.live)
