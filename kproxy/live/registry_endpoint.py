"""``--registry-listen``: serves the schema registry of the built-in broker over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

from kproxy.broker import Broker
from kproxy.broker.schema_registry import RestRequest, SchemaRegistryService
from kproxy.live.http_server import HttpRequest, HttpResponse, HttpServer
from kproxy.outputs.stderr import warn
from kproxy.proxy.address import Address
from kproxy.proxy.sockets import listen

_TYPE: Final = "application/vnd.schemaregistry.v1+json"
#: Content types of requests with a body. Browsers send none of them to other sites without a preflight request.
_TYPES: Final = (_TYPE, "application/vnd.schemaregistry+json", "application/json", "application/octet-stream")
_METHODS: Final = ("GET", "POST", "PUT", "DELETE")
_MAX_BODY_BYTES: Final = 1 << 20
_LIFETIME_S: Final = 30.0  # checking a large .proto file takes seconds


@asynccontextmanager
async def serve_registry(address: Address, broker: Broker) -> AsyncIterator[list[str]]:
    """Answer requests while the block lasts; yield the addresses of the listening sockets.

    Raises:
        ListenError: The address cannot be listened on.
        RestError: The topic `_schemas` cannot be created.
    """
    service = SchemaRegistryService(broker.cluster)
    sockets = await asyncio.to_thread(listen, address, "--registry-listen")

    async def respond(request: HttpRequest) -> HttpResponse:
        return await _respond(service, request)

    def report_failure(error: Exception) -> None:
        warn(f"the schema registry failed ({type(error).__name__}: {error}); this is a bug in kproxy")

    server = HttpServer(
        sockets, respond, report_failure, methods=_METHODS, max_body_bytes=_MAX_BODY_BYTES, lifetime_s=_LIFETIME_S
    )
    try:
        yield server.addresses
    finally:
        server.close()


async def _respond(service: SchemaRegistryService, request: HttpRequest) -> HttpResponse:
    body = None
    if request.method in ("POST", "PUT"):
        if request.headers.get("content-type", _TYPE).partition(";")[0].strip().lower() not in _TYPES:
            return _error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "HTTP 415 Unsupported Media Type")
        try:
            body = json.loads(request.body)
        except (ValueError, RecursionError):
            return _error(HTTPStatus.BAD_REQUEST, "the body is not JSON in UTF-8")
    query = dict(parse_qsl(request.query, keep_blank_values=True))
    result = await service.respond(RestRequest(request.method, request.path, query, body))
    if isinstance(result.value, str):  # the text of a schema
        return HttpResponse(result.status, result.value.encode(errors="replace"), _TYPE)
    return HttpResponse(result.status, json.dumps(result.value, separators=(",", ":")).encode(), _TYPE)


def _error(status: HTTPStatus, message: str) -> HttpResponse:
    body: dict[str, Any] = {"error_code": status.value, "message": message}
    return HttpResponse(status, json.dumps(body).encode(), _TYPE)
