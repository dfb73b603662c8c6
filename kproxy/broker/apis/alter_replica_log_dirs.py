"""AlterReplicaLogDirs: moves replicas to another log directory of their broker; each broker has just one.

Leaves out: nothing that applies to a single directory.
"""

from __future__ import annotations

from kproxy.broker.access import CLUSTER, is_allowed
from kproxy.broker.apis.describe_log_dirs import log_dir
from kproxy.broker.errors import Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics


@api("AlterReplicaLogDirs")
async def alter_replica_log_dirs(request: Request) -> Body:
    """Return the result for each partition: success for the broker's own directory, else LOG_DIR_NOT_FOUND."""
    is_authorized = is_allowed(request, "ALTER", "CLUSTER", CLUSTER)
    topics, results = request.cluster.part(Topics), []
    async for move in paced(request.body["dirs"]):
        async for topic in paced(move["topics"]):
            partitions = []
            async for index in paced(topic["partitions"]):
                if not is_authorized:
                    error = Error.CLUSTER_AUTHORIZATION_FAILED
                elif move["path"] != log_dir(request):
                    error = Error.LOG_DIR_NOT_FOUND
                else:
                    partition = topics.partition(topic["name"], index)
                    has_replica = partition is not None and request.node.id in partition.replicas
                    error = Error.NONE if has_replica else Error.REPLICA_NOT_AVAILABLE
                partitions.append({"partition_index": index, "error_code": error})
            results.append({"topic_name": topic["name"], "partitions": partitions})
    return {"results": results}
