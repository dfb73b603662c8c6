"""Judgements of errors: what an error code of a broker means, who must change something, and what."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from dissectors.schemas.codes import Error


class Nature(StrEnum):
    """Whether an error is a problem at its first occurrence.

    ROUTINE: part of normal operation, e.g. a rebalance. TRANSIENT: it passes, and clients retry; it is a problem only
    if it repeats without a success. FINAL: the same request is refused again until somebody changes something.
    """

    ROUTINE = "routine"
    TRANSIENT = "transient"
    FINAL = "final"


class Harm(StrEnum):
    """The consequence of a FINAL error: nothing, one failed call, or lost records or a client that cannot work."""

    NONE = "info"
    CALL = "warning"
    DATA = "error"


class ErrorJudgement(NamedTuple):
    """What an error means in the response of an API.

    Args:
        nature: Whether a single occurrence is a problem.
        blame: The side that usually has to change: ``client`` or ``broker`` (with its cluster and configuration).
        meaning: A clause that follows a colon: what happened.
        change: What to change, as an instruction.
        fields: Fields of the request that the error concerns; their values are quoted.
        harm: The harm of a FINAL error.
        grace_period: The number of seconds for which it may repeat before it is a problem.
    """

    nature: Nature
    blame: str
    meaning: str
    change: str
    fields: tuple[str, ...] = ()
    harm: Harm = Harm.CALL
    grace_period: float = 2.0


Judgements = dict[Error, ErrorJudgement]
JudgementsByApi = dict[tuple[str, Error], ErrorJudgement]

#: Seconds for an election: leaders and coordinators move when a broker restarts, and are elected within seconds.
ELECTION = 5.0
#: Seconds in which metadata of a new or deleted topic reaches all brokers; some clients wait for a topic.
PROPAGATION = 8.0


def routine_error(meaning: str, change: str, *, blame: str = "client", grace_period: float = 60.0) -> ErrorJudgement:
    """Return an error that belongs to normal operation, and is a problem only if nothing else happens for long."""
    return ErrorJudgement(Nature.ROUTINE, blame, meaning, change, grace_period=grace_period)


def transient_error(
    meaning: str, change: str, *, blame: str = "broker", grace_period: float = 2.0, fields: tuple[str, ...] = ()
) -> ErrorJudgement:
    """Return an error after which clients retry; it is a problem if it repeats for `grace_period` seconds."""
    return ErrorJudgement(Nature.TRANSIENT, blame, meaning, change, fields, grace_period=grace_period)


def final_error(
    meaning: str, change: str, *, blame: str = "client", fields: tuple[str, ...] = (), harm: Harm = Harm.CALL
) -> ErrorJudgement:
    """Return an error that the same request would get again; it is a problem at its first occurrence."""
    return ErrorJudgement(Nature.FINAL, blame, meaning, change, fields, harm)
