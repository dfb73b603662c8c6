"""M004: a length prefix that cannot be one."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.conversation import Conversation
from dissectors.events import FramingLost
from dissectors.findings import Problem, Severity
from dissectors.rules import rule


@rule("M004", severity=Severity.ERROR, events=(FramingLost,), since="0.1")
def desync(event: FramingLost, _: Conversation) -> Iterator[Problem]:
    """Checks that every length prefix can be one: long enough for a header, and not over 100 MiB.

    ## Why it matters
    From there on nothing on the connection can be read: each frame's start follows from the length of the one before.

    ## Usual cause
    The frame before it has a length prefix that counts wrong, or writes its bytes twice.

    ## Example
    ```hex request
    ff ff ff fe 00 12 00 00    # a length of -2
    ```

    ## Sources
    https://kafka.apache.org/protocol#protocol_common
    """
    if event.protocol is None:
        yield Problem(f"no Kafka frame begins here: {event.reason}")
