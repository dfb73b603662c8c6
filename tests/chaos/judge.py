"""Plays a story, and lists what it violates."""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.chaos import invariants
from tests.chaos.load import stored
from tests.chaos.rig import Rig
from tests.chaos.stories import Story
from tests.chaos.upstreams import Upstream
from tests.peers.processes import until
from tests.peers.trace import read_lines

_log = logging.getLogger(__name__)

#: Seconds for traffic to go on during a fault of inspection, which may not hold it up: what a busy machine needs.
TRAFFIC_S = 10
#: Seconds until clients are served again after a fault that stops traffic; librdkafka tries again twice a second.
RECOVERY_S = 20
#: Seconds in which the other processes of a kproxy end after its relay: 10, and what a busy machine adds.
FOLLOW_S = 12


def violations(story: Story, directory: Path, upstream: Upstream | None) -> list[str]:
    """Play the story; what went wrong, as sentences.

    Args:
        story: What to play.
        directory: Empty or new.
        upstream: A broker that runs; None starts the built-in one.
    """
    last = story.faults[-1]
    rig = Rig(
        directory,
        upstream,
        story.pace,
        *(() if any(fault.verbose for fault in story.faults) else ("--quiet",)),
        *(("--inspectors", str(story.inspectors)) if story.inspectors > 1 else ()),
        own_disk=any(fault.own_disk for fault in story.faults),
        own_hosts=any(fault.own_hosts for fault in story.faults),
    )
    try:
        rig.load.advance()
        for fault in story.faults:
            fault.inject(rig)
            rig.expect(fault.reported)
            if not fault.stops_traffic:
                rig.load.advance(seconds=TRAFFIC_S)
            if story.heals or fault is not last:
                fault.heal(rig)
                rig.expect(fault.healed)
                rig.load.advance(seconds=RECOVERY_S)
        found = list(_end(rig, story))
        if not story.heals:
            rig.upstream.start()
        for run in rig.runs:
            peaks = ", ".join(f"{part} {peak:.0f} MB" for part, peak in run.census.peaks.items())
            _log.info("%s: %d records acknowledged; at most %s", story.name, len(rig.load.acked), peaks)
        return [*found, *invariants.lost_or_doubled(rig.load.acked, stored(rig.broker, rig.topic))]
    finally:
        rig.close()


def _end(rig: Rig, story: Story) -> Iterator[str]:
    """End kproxy as a service manager does, and look at what it leaves."""
    last = story.faults[-1]
    if story.heals or not last.stops_traffic:
        rig.load.finish()
        if failed := rig.load.failed:
            yield f"{len(failed)} records were refused: {set(failed.values())}"
    rig.proxy.signal(signal.SIGTERM)
    statuses = [run.wait() for run in rig.runs]
    if statuses != story.exits:
        yield f"exit status {statuses}, expected {story.exits}; it printed: {rig.proxy.printed}"
    if not story.heals and not re.search(last.ended or "", rig.proxy.printed):
        yield f"the end does not report {last.ended!r}; it printed: {rig.proxy.printed}"
    rig.load.finish(seconds=0)
    for run in rig.runs:
        try:
            until("all processes have ended", lambda run=run: not run.census.left, seconds=FOLLOW_S)  # type: ignore[misc]
        except TimeoutError:
            yield f"left behind after {FOLLOW_S} s: {run.census.left}"
        yield from invariants.unbounded(run.census.peaks)
        yield from invariants.crashed(run.printed)
    yield from invariants.unaccounted(read_lines(rig.trace, torn_end=True))
