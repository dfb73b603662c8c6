"""ElectLeaders: elects the preferred replica as leader of partitions, or any live one in an unclean election.

Leaves out: timeouts (leaders are elected immediately).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.access import CLUSTER, is_allowed
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Partition, Topics

_PREFERRED: Final = 0
_UNCLEAN: Final = 1


@api("ElectLeaders")
async def elect_leaders(request: Request) -> Body:
    """Return the result for each requested partition; for null, for each partition that needed an election."""
    body, topics = request.body, request.cluster.part(Topics)
    election_type, requested = body.get("election_type", _PREFERRED), body["topic_partitions"]
    if not is_allowed(request, "ALTER", "CLUSTER", CLUSTER):
        return {"error_code": Error.CLUSTER_AUTHORIZATION_FAILED}
    if election_type not in (_PREFERRED, _UNCLEAN):
        return {"error_code": Error.INVALID_REQUEST}
    results = []
    if requested is None:
        async for topic in paced(list(topics)):
            partitions = [_election_result(request, topics, partition, election_type) for partition in topic.partitions]
            results.append(
                (topic.name, [partition for partition in partitions if partition["error_code"] != _NOT_NEEDED])
            )
    else:
        async for topic in paced(requested):
            requested_partitions = ((index, topics.partition(topic["topic"], index)) for index in topic["partitions"])
            election_results = [
                _election_result(request, topics, partition, election_type)
                if partition
                else _unknown_partition_result(topic["topic"], index)
                async for index, partition in paced(requested_partitions)
            ]
            results.append((topic["topic"], election_results))
    return {
        "replica_election_results": [{"topic": name, "partition_result": partitions} for name, partitions in results]
    }


_NOT_NEEDED: Final = Error.ELECTION_NOT_NEEDED


def _unknown_partition_result(topic: str, index: int) -> Mapping[str, Any]:
    error = Error.UNKNOWN_TOPIC_OR_PARTITION
    return {"partition_id": index, "error_code": error, "error_message": f"No such partition as {topic}-{index}"}


def _election_result(request: Request, topics: Topics, partition: Partition, election_type: int) -> Mapping[str, Any]:
    try:
        _elect(request, topics, partition, election_type)
    except ApiError as api_error:
        return {"partition_id": partition.index, "error_code": api_error.error, "error_message": api_error.message}
    return {"partition_id": partition.index, "error_code": Error.NONE, "error_message": None}


def _elect(request: Request, topics: Topics, partition: Partition, election_type: int) -> None:
    live_replicas = [replica for replica in partition.replicas if request.cluster.nodes[replica].up]
    if election_type == _UNCLEAN:
        if partition.leader >= 0:
            raise ApiError(Error.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        if not live_replicas:
            raise ApiError(Error.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica of the partition is up.")
        topics.set_leader(partition, live_replicas[0])
        return
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        raise ApiError(Error.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if preferred not in live_replicas:
        raise ApiError(
            Error.PREFERRED_LEADER_NOT_AVAILABLE,
            f"The preferred leader was not available: broker {preferred} is not up.",
        )
    topics.set_leader(partition, preferred)
