"""A small schema registry next to the built-in broker: Confluent's REST API, stored in the topic ``_schemas``."""

from kproxy.broker.schema_registry.rest import RestRequest, RestResult
from kproxy.broker.schema_registry.service import SchemaRegistryService

__all__ = ["RestRequest", "RestResult", "SchemaRegistryService"]
