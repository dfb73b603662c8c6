"""DeleteTopics: deletes topics with their records, configs and offsets, by name or from version 6 on by id.

Leaves out: timeouts (topics are deleted immediately).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.wire.layout import NULL_UUID
from kproxy.broker.access import require
from kproxy.broker.configs import Configs
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.topics import Topics


@api("DeleteTopics")
async def delete_topics(request: Request) -> Body:
    """Return the result for each topic."""
    body = request.body
    requested = body["topics"] if request.version >= 6 else [{"name": name} for name in body["topic_names"]]
    return {
        "responses": [
            _delete_or_reject(request, topic.get("name"), topic.get("topic_id", NULL_UUID))
            async for topic in paced(requested)
        ]
    }


def _delete_or_reject(request: Request, name: str | None, topic_id: str) -> Mapping[str, Any]:
    cluster = request.cluster
    topics = cluster.part(Topics)
    try:
        if (name is None) == (topic_id == NULL_UUID):
            raise ApiError(Error.INVALID_REQUEST, "A topic is deleted by its name or by its id.")
        if cluster.part(Configs).broker("delete.topic.enable") != "true":
            raise ApiError(Error.TOPIC_DELETION_DISABLED if request.version >= 3 else Error.INVALID_REQUEST)
        if name is not None:
            require(request, "DELETE", "TOPIC", name)
        topic = topics.find(name, topic_id)
        require(request, "DELETE", "TOPIC", topic.name)
    except ApiError as api_error:
        return {"name": name, "topic_id": topic_id, "error_code": api_error.error, "error_message": api_error.message}
    topics.delete(topic)
    cluster.part(Configs).forget("topic", topic.name)
    return {"name": topic.name, "topic_id": topic.id}
