"""Conversation: what a connection has said so far, and what all connections of a run know together."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from dissectors.events import RequestReceived, ResponseReceived
from dissectors.message import Message

METADATA = 3
CREATE_TOPICS = 19
API_VERSIONS = 18
SASL_HANDSHAKE = 17
DESCRIBE_TOPIC_PARTITIONS = 75

#: Topics whose ids are remembered; the oldest are forgotten first.
MAX_TOPICS = 100_000


@dataclass(slots=True)
class Cluster:
    """What the connections of one run have learned together: the names of topic ids."""

    topic_names: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def learn(self, message: Message) -> None:
        """Take topic ids from a response that names them."""
        for topic in message.body.get("topics") or ():
            if isinstance(topic, dict) and (topic_id := topic.get("topic_id")) and (name := topic.get("name")):
                self.topic_names[topic_id] = name
                if len(self.topic_names) > MAX_TOPICS:
                    self.topic_names.popitem(last=False)


@dataclass(slots=True)
class Conversation:
    """One connection's story: feed it every event, in order, before the rules see it."""

    cluster: Cluster = field(default_factory=Cluster)
    client_software: str | None = None
    sasl_mechanism: str | None = None
    #: API key -> (lowest, highest) version that the server said it serves.
    advertised: dict[int, tuple[int, int]] | None = None

    def hear(self, event: object) -> None:
        """Remember what an event says."""
        if isinstance(event, RequestReceived):
            self._request(event.message)
        elif isinstance(event, ResponseReceived) and event.message is not None:
            self._response(event.message)

    def _request(self, message: Message) -> None:
        if message.api_key == API_VERSIONS and (name := message.body.get("client_software_name")):
            self.client_software = f"{name} {message.body.get('client_software_version', '')}".strip()
        elif message.api_key == SASL_HANDSHAKE:
            self.sasl_mechanism = message.body.get("mechanism")

    def _response(self, message: Message) -> None:
        key = message.api_key
        if key in (METADATA, CREATE_TOPICS, DESCRIBE_TOPIC_PARTITIONS):
            self.cluster.learn(message)
        elif key == API_VERSIONS and message.error is None and message.body.get("api_keys"):
            self.advertised = {
                entry["api_key"]: (entry["min_version"], entry["max_version"]) for entry in message.body["api_keys"]
            }
