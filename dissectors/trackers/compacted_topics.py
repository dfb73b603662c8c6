"""Compacted: the topics whose `cleanup.policy` includes compact, as far as requests and responses show it."""

from __future__ import annotations

from dissectors.bounded import BoundedDict
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.trackers import tracker
from dissectors.trackers.state import ConnectionState

_MAX_TOPICS = 10_000
_TOPIC_RESOURCE = 2


@tracker(
    events=(RequestReceived, ResponseReceived), apis=("CreateTopics", "DescribeConfigs", "IncrementalAlterConfigs")
)
class Compacted:
    """The compacted topics of a run, by server and name."""

    def __init__(self) -> None:
        self.topics: BoundedDict[tuple[str, str], bool] = BoundedDict(_MAX_TOPICS)

    def observe(self, event: RequestReceived | ResponseReceived, connection: ConnectionState) -> None:
        """Remember policies that were set successfully or described."""
        message = event.message
        if message is None or message.is_request:
            return
        if message.api == "DescribeConfigs":
            for result in message.body.get("results", ()):
                if result.get("resource_type") == _TOPIC_RESOURCE and not result.get("error_code"):
                    self._update(connection, result.get("resource_name"), result.get("configs"))
            return
        request_body = event.request_body if isinstance(event, ResponseReceived) else None
        if request_body is None:
            return
        if message.api == "CreateTopics":
            accepted = {row.get("name") for row in message.body.get("topics", ()) if not row.get("error_code")}
            for topic in request_body.get("topics", ()):
                if topic.get("name") in accepted and not request_body.get("validate_only"):
                    self._update(connection, topic.get("name"), topic.get("configs"))
            return
        accepted = {row.get("resource_name") for row in message.body.get("responses", ()) if not row.get("error_code")}
        for resource in request_body.get("resources", ()):
            if resource.get("resource_type") == _TOPIC_RESOURCE and resource.get("resource_name") in accepted:
                # Only SET shows the whole policy; after DELETE, APPEND or SUBTRACT it is unknown.
                self._update(connection, resource.get("resource_name"), resource.get("configs"), required_operation=0)

    def _update(
        self, connection: ConnectionState, topic: str | None, configs: object, required_operation: int | None = None
    ) -> None:
        key = connection.server, topic or ""
        for config in configs if isinstance(configs, list) else ():
            if config.get("name") == "cleanup.policy":
                value = config.get("value") or ""
                if "compact" in value and config.get("config_operation", required_operation) == required_operation:
                    self.topics[key] = True
                else:
                    self.topics.pop(key, None)
