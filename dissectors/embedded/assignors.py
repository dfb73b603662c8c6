"""User data of assignors in consumer subscriptions and assignments: Kafka Streams and the sticky assignors."""

from __future__ import annotations

from dissectors.embedded import streams
from dissectors.embedded.registry import Reader, Rows, embedded, enclosing_text, find_exact_layout, payload_of_layout
from dissectors.wire.layout import Field, Layout

_GENERATION = Field("generation", "int32")
_PREVIOUS = Field(
    "previous_assignment",
    "struct",
    array=True,
    length="int32",
    struct=Layout(
        "TopicAssignment",
        (Field("topic", "string", length="int16"), Field("partitions", "int32", array=True, length="int32")),
    ),
)

#: Java's cooperative assignor writes only the generation; librdkafka's writes the same data as its sticky assignor.
_STICKY = tuple(
    payload_of_layout(Layout("StickyAssignorUserData", fields))
    for fields in ((_GENERATION,), (_PREVIOUS, _GENERATION), (_PREVIOUS,))
)


@embedded("ConsumerProtocolSubscription", "data.user_data")
def subscription_user_data(data: bytes, rows: Rows) -> Layout | None:
    """Return the layout for the assignor: ``stream``, ``sticky`` or ``cooperative-sticky``; None for other assignors.

    Source: Kafka's SubscriptionInfo, StickyAssignor, CooperativeStickyAssignor.
    """
    assignor = _assignor(rows)
    if assignor == "stream":
        return streams.subscription(data)
    return find_exact_layout(data, _STICKY) if assignor in ("sticky", "cooperative-sticky") else None


@embedded("ConsumerProtocolAssignment", "data.user_data")
def assignment_user_data(data: bytes, rows: Rows) -> Layout | None:
    """Return the layout for Kafka Streams, the only assignor with user data here.

    If the assignor is unknown, the bytes must decode completely.
    """
    assignor = _assignor(rows)
    if assignor == "stream":
        return streams.assignment(data)
    layout = streams.find_assignment_layout(data) if assignor is None else None
    return find_exact_layout(data, (layout,)) if layout else None


def user_data_names(reader: Reader | None, rows: Rows) -> tuple[str, ...]:
    """Return the payloads that user data with this reader may contain; empty if it is not from Kafka Streams."""
    if _assignor(rows) != "stream":
        return ()
    if reader is subscription_user_data:
        return ("SubscriptionInfoData",)
    return ("AssignmentInfo",) if reader is assignment_user_data else ()


def _assignor(rows: Rows) -> str | None:
    return enclosing_text(rows, "name", "protocol_name", "protocol_data", "protocol")
