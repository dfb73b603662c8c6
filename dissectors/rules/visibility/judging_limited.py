"""K009: a frame with more problems than are reported."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import JudgingLimited
from dissectors.findings import Problem, Severity
from dissectors.records.formats import count_text
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@rule("K009", severity=Severity.INFO, events=(JudgingLimited,), since="0.1")
def judging_limited(event: JudgingLimited, _: ConnectionState) -> Iterator[Problem]:
    """Reports that a frame has more problems than are reported, or that judging it took all the work that it may take.

    ## Why it matters
    A frame can have a problem in each of its bytes. Reporting them all would add nothing and could take minutes, while
    no other frame is inspected. So each rule reports the first 20 findings of a frame and counts the rest, and
    all rules share a limited number of steps, which are counted, not timed. Rules that stopped are named: the frame
    may have problems that they did not reach. Other frames are not affected; the relay forwarded the frame unchanged.

    ## Usual cause
    One fault of the sender that affects every element of a large array. Or bytes that were crafted to keep a reader
    busy.

    ## Example
    ```story
    > Metadata v9 {"topics": []}
    < {"brokers": [], "topics": [], "_tags": [[71, ""], [72, ""], [73, ""], [74, ""], [75, ""], [76, ""], [77, ""],
      [78, ""], [79, ""], [80, ""], [81, ""], [82, ""], [83, ""], [84, ""], [85, ""], [86, ""], [87, ""], [88, ""],
      [89, ""], [90, ""], [91, ""]]}
    ```

    ## Look-alikes
    ```story
    > Metadata v9 {"topics": []}
    < {"brokers": [], "topics": [], "_tags": [[77, "00 01"]]}    # one finding (L014), and no more
    ```

    ## Sources
    https://cwe.mitre.org/data/definitions/407.html
    """
    message = event.message
    message_name = f"{message.api} v{message.version} {'request' if message.is_request else 'response'}"
    if event.withheld:
        withheld_text = " and ".join(f"{count} of {code}" for code, count in sorted(event.withheld.items()))
        count = sum(event.withheld.values())
        yield Problem(
            f"this {message_name} has {count_text(count, 'more finding')} than are reported: {withheld_text}",
            hint="fix the cause of the findings that are reported: usually it is the same for all",
            cause="findings",
        )
    if event.unfinished:
        yield Problem(
            f"judging this {message_name} of {len(message.frame)} bytes took all the work that one frame may take: "
            f"{', '.join(event.unfinished)} did not finish",
            hint="it may have problems that are not reported",
            severity=Severity.WARNING,
            cause="steps",
        )
