"""Play a story, and list its violations."""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.chaos import invariants
from tests.chaos.load import stored_numbers
from tests.chaos.rig import Rig
from tests.chaos.stories import Story
from tests.chaos.upstreams import Upstream
from tests.peers.processes import until
from tests.peers.trace import read_lines

_log = logging.getLogger(__name__)

#: Seconds within which traffic must continue during a fault that does not stop it, on a busy machine.
TRAFFIC_S = 10
#: Seconds until clients are served again after a fault that stops traffic; librdkafka retries twice a second.
RECOVERY_S = 20
#: Seconds within which the other processes of a kproxy must end after its relay: 10, and a margin for a busy machine.
FOLLOW_S = 12


def play_story(story: Story, directory: Path, upstream: Upstream | None) -> list[str]:
    """Play the story; return its violations as sentences.

    Args:
        story: The story to play.
        directory: An empty or new directory.
        upstream: A running broker; None starts the built-in one.
    """
    last_fault = story.faults[-1]
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
                rig.load.advance(timeout=TRAFFIC_S)
            if story.heals or fault is not last_fault:
                fault.heal(rig)
                rig.expect(fault.healed)
                rig.load.advance(timeout=RECOVERY_S)
        violations = list(_end_story(rig, story))
        if not story.heals:
            rig.upstream.start()
        for run in rig.runs:
            peaks = ", ".join(f"{name} {peak:.0f} MB" for name, peak in run.tracker.peaks.items())
            _log.info("%s: %d records acknowledged; at most %s", story.name, len(rig.load.acknowledged), peaks)
        return [
            *violations,
            *invariants.lost_or_duplicated(rig.load.acknowledged, stored_numbers(rig.broker, rig.topic)),
        ]
    finally:
        rig.close()


def _end_story(rig: Rig, story: Story) -> Iterator[str]:
    """Stop kproxy as a service manager would, and yield the violations."""
    last_fault = story.faults[-1]
    if story.heals or not last_fault.stops_traffic:
        rig.load.finish()
        if failures := rig.load.failures:
            yield f"{len(failures)} records were refused: {set(failures.values())}"
    rig.proxy.signal(signal.SIGTERM)
    statuses = [run.wait() for run in rig.runs]
    if statuses != story.exits:
        yield f"exit status {statuses}, expected {story.exits}; it printed: {rig.proxy.printed}"
    if not story.heals and not re.search(last_fault.ended or "", rig.proxy.printed):
        yield f"the end does not report {last_fault.ended!r}; it printed: {rig.proxy.printed}"
    rig.load.finish(timeout=0)
    for run in rig.runs:
        try:
            until("all processes have ended", lambda run=run: not run.tracker.remaining, timeout=FOLLOW_S)  # type: ignore[misc]
        except TimeoutError:
            yield f"left behind after {FOLLOW_S} s: {run.tracker.remaining}"
        yield from invariants.excessive_memory(run.tracker.peaks)
        yield from invariants.visible_crashes(run.printed)
    yield from invariants.unaccounted_bytes(read_lines(rig.trace, torn_end=True))
