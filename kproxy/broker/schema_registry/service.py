"""The registry as a function from requests to responses; the caller handles HTTP."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from kproxy.broker.schema_registry.errors import RestError, not_json
from kproxy.broker.schema_registry.rest import RestRequest, RestResult, find_operation
from kproxy.broker.schema_registry.subjects import Subjects

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster


class SchemaRegistryService:
    """The registry of a cluster. It does not connect to a broker: it accesses the log of its topic directly.

    It creates the topic, reads it, and appends to it.

    Raises:
        RestError: The topic cannot be created.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._subjects = Subjects(cluster)
        self._subjects.refresh()
        self._write_lock = asyncio.Lock()

    async def respond(self, request: RestRequest) -> RestResult:
        """Process a request; requests that may change the state are processed one at a time."""
        try:
            handler, variables = find_operation(request)
            if request.method in ("POST", "PUT") and not isinstance(request.body, dict):
                raise not_json()
            if request.method == "GET":
                self._subjects.refresh()
                return RestResult(HTTPStatus.OK, await handler(self._subjects, request, variables))
            async with self._write_lock:
                self._subjects.refresh()
                return RestResult(HTTPStatus.OK, await handler(self._subjects, request, variables))
        except RestError as error:
            return RestResult(error.status, {"error_code": error.code, "message": error.message})
