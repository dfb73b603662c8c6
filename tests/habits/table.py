"""The habits that clients play: the rules that name them, the limits of these rules, and the broker's quirks."""

from __future__ import annotations

from typing import Final, NamedTuple

LIBRDKAFKA, JAVA = "librdkafka", "java"
CLIENTS: Final = (LIBRDKAFKA, JAVA)
BAD, FIXED = "bad", "fixed"


class Habit(NamedTuple):
    """A habit. One of the rules `codes` must name its bad variant.

    Attributes:
        codes: Codes of rules.
        limits: Limits of a rule with which a few seconds are enough.
        quirks: Quirks of the broker.
        clients: The clients that can play the habit.
        alone: Whether milliseconds matter, so that nothing else may run meanwhile.
    """

    codes: tuple[str, ...]
    limits: str = ""
    quirks: tuple[str, ...] = ()
    clients: tuple[str, ...] = CLIENTS
    alone: bool = False


HABITS: Final[dict[str, Habit]] = {
    # producers
    "client-per-message": Habit(("C018",)),
    "producer-per-task": Habit(("H001",)),
    "flush-each": Habit(("R026",), alone=True),
    "no-linger": Habit(("R026",), "R026:rate=50", alone=True),
    "no-compression": Habit(("R029",)),
    "acks-0": Habit(("S090",)),
    "acks-1-beside-all": Habit(("H002",), "H002:requests=50"),
    "no-idempotence": Habit(("H003",), "H003:requests=50"),
    "in-flight": Habit(("H004",)),
    # Late responses: otherwise, a broker that is faster than its client has one request in flight, and the order stays.
    "retry-reorders": Habit(("H005",), quirks=("Produce:error:NOT_ENOUGH_REPLICAS,probability=0.2,client={client}",
                                               "Produce:delay:50,client={client}")),
    "key-skew": Habit(("H006",), "H006:records=500"),
    "near-limit": Habit(("M008",)),
    "keyless": Habit(("R022",)),
    "empty-value": Habit(("R028",)),
    "aborts": Habit(("T004",)),
    "long-transaction": Habit(("T002",)),
    "auto-create": Habit(("S011",)),
    # consumers
    "commit-each": Habit(("S091",), alone=True),
    "commit-nothing": Habit(("S092",), alone=True),
    "rare-commits": Habit(("H009",), "H009:commits=2,fetches=3"),
    "busy-poll": Habit(("S031",)),
    "min-bytes": Habit(("H010",), "H010:responses=8"),
    "small-fetches": Habit(("H011",), "H011:responses=20"),
    "huge-fetches": Habit(("H012",)),
    "poll-gap": Habit(("H013",), clients=(JAVA,)),  # librdkafka fetches in the background
    "few-heartbeats": Habit(("H014",), "H014:gaps=3"),
    "not-static": Habit(("H015",), "H015:restarts=2"),
    "consumer-per-message": Habit(("S021",)),
    "eager": Habit(("H016",), "H016:rebalances=3"),
    "subscriptions": Habit(("H017",), "H017:generations=1"),
    "assignors": Habit(("H018",), "H018:generations=1"),
    "manual-commits": Habit(("H019",)),
    "commit-back": Habit(("S043",)),
    "reset-to-the-end": Habit(("S027", "S026")),
    "missing-topic": Habit(("S066", "E002")),
    # both
    "default-id": Habit(("S048",), "S048:connections=1"),
    "many-connections": Habit(("H007",), "H007:connections=20"),
    "cadence": Habit(("H008",), "H008:connections=4,difference=50,least=200ms"),
    "metadata-storm": Habit(("S009",)),
    "metadata-only": Habit(("C017",)),
    "same-question": Habit(("H020",), "H020:calls=30"),
    "throttled": Habit(("S036",), quirks=("Produce:value:throttle_time_ms:1500,client={client}",)),
    "no-backoff": Habit(("S050",), "S050:pause=60ms,within=9s",
                        quirks=("Produce:error:NOT_ENOUGH_REPLICAS,client={client}",), alone=True),
}  # fmt: skip

#: The client ids of clients that set none.
DEFAULT_IDS: Final = {LIBRDKAFKA: "rdkafka", JAVA: "producer-1"}


def client_id(habit: str, variant: str, client: str) -> str:
    """Return the client id of a variant, which is also the name of its groups."""
    return f"{habit}-{variant}-{client}"
