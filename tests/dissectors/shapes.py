"""Small layouts for tests."""

from typing import Any

from dissectors.wire.layout import Field, Layout

PORT = Layout("Port", (Field("port", "int8", default=9),))
#: Everything that a tag buffer can hold.
TAGGED = Layout(
    "Tagged",
    (Field("error_code", "int16", default=0),),
    flexible=True,
    tagged=(
        Field("cluster_id", "string", nullable=True, length="uvarint", tag=0),
        Field("epoch", "int32", tag=1),
        Field("where", "struct", nullable=True, length="uvarint", struct=PORT, tag=2),
    ),
)


def single_field(kind: str, **shape: Any) -> Layout:
    """Return a layout of a single field, called ``it``."""
    return Layout("One", (Field("it", kind, **shape),))
