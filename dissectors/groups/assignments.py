"""Track the partitions or tasks assigned to members by their heartbeats, and those that only a lost member had.

Sources: KIP-848, KIP-932, KIP-1071.
"""

from __future__ import annotations

from itertools import islice

from dissectors.bounded import MAX_NAME_LENGTH
from dissectors.groups.facts import GroupResponse
from dissectors.groups.model import MAX_ASSIGNED, GroupHistory, Lane, MembershipState
from dissectors.groups.stalls import members
from dissectors.groups.stalls.endings import end_stalls


def on_assignment(group: GroupHistory, lane: Lane, frame: GroupResponse, at: int) -> None:
    """Apply the response to a heartbeat, which has the member's assignment if it has changed.

    If it gives other members all partitions of a lost member, the session of the lost member has expired.
    """
    assigned = [
        ((topic.topic_id or topic.topic or "")[:MAX_NAME_LENGTH], partition)
        for topic in frame.topics
        for partition in topic.partitions
    ]
    for task in frame.tasks:
        subtopology, _, number = task[:MAX_NAME_LENGTH].rpartition("_")
        if number.isdecimal():
            assigned.append((subtopology, int(number)))
    if not assigned:
        return
    for topic in frame.topics:
        if topic.topic_id and topic.topic:
            group.topic_names[topic.topic_id[:MAX_NAME_LENGTH]] = topic.topic[:MAX_NAME_LENGTH]
    lost_members = [
        (lost_lane, list(members.lost_stalls(group, lost_lane, at)))
        for lost_lane in group.lanes_in_state(MembershipState.LOST)
        if lost_lane is not lane and members.unread_partitions(group, lost_lane)
    ]
    lane.assigned = frozenset(islice(assigned, MAX_ASSIGNED))
    for member, stalls in lost_members:
        if not members.unread_partitions(group, member):
            end_stalls(group, stalls, at)
            member.set_state(MembershipState.OUT, at)
