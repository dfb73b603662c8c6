"""Refusals: what each error code of a broker means in each API, whose fault it usually is, and what to change.

`judgement` returns the entry for an API and an error. `validation` finds what is wrong with a request that was refused
as invalid, by the checks of Kafka's own handlers.

Sources: Errors.java, KafkaApis.scala, ControllerApis.scala, ReplicaManager.scala, GroupMetadataManager.java,
TransactionCoordinator.scala and ReplicationControlManager.java of Kafka 4; the KIPs named in the entries.
"""

from __future__ import annotations

import functools

from dissectors.refusals.errors import by_api, cluster, groups, logs, security, transactions
from dissectors.refusals.judgement import ELECTION, PROPAGATION, ErrorJudgement, Harm, Nature, final_error
from dissectors.schemas.codes import Error

__all__ = [
    "ELECTION",
    "PROPAGATION",
    "UNKNOWN",
    "ErrorJudgement",
    "Harm",
    "Nature",
    "generic_judgements",
    "judgement",
    "nature_of",
]

#: The judgement of codes that no Kafka release has.
UNKNOWN = final_error(
    "no Kafka release has this error code, and clients treat it as UNKNOWN_SERVER_ERROR",
    "fix the broker: it must return one of Kafka's error codes",
    blame="broker",
)


@functools.cache
def generic_judgements() -> dict[int, ErrorJudgement]:
    """Return the general entry for each error, by code; it applies to APIs without an entry of their own."""
    judgements: dict[int, ErrorJudgement] = {}
    for table in (logs.ERRORS, groups.ERRORS, transactions.ERRORS, cluster.ERRORS, security.ERRORS):
        judgements.update((error.value, judgement) for error, judgement in table.items())
    return judgements


def judgement(api: str, code: int) -> ErrorJudgement:
    """Return what an error code means in the response of an API; `UNKNOWN` if it is not one of Kafka's."""
    if (judgement := generic_judgements().get(code)) is None:
        return UNKNOWN
    return by_api.ERRORS.get((api, Error(code)), judgement)


def nature_of(api: str, error: str) -> Nature:
    """Return the nature of an error, by its name, in the response of an API; FINAL if it is not one of Kafka's."""
    return judgement(api, Error[error].value).nature if error in Error.__members__ else Nature.FINAL
