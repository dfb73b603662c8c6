"""Schemas from a registry over HTTP: by Confluent's REST API, which most registries offer, or by Apicurio's own API.

A registry that is slow, down or broken costs a bounded amount of time: each request has a time limit, and after a
failure the registry is left alone for a while, which doubles with each further failure.

Sources: Confluent's "Schema Registry API Reference" (``/schemas/ids``, ``/schemas/guids``, ``/subjects``), Apicurio's
core APIs v2 and v3 (``/ids/globalIds``, ``/ids/contentIds``, ``/groups/GROUP/artifacts/ARTIFACT/versions``).
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlsplit

import aiohttp

from dissectors.values import NotRegistered, Schema, SchemaKey

_TIMEOUT_S = 5.0
_MAX_BYTES: Final = 4 << 20
_MAX_AT_ONCE: Final = 4
_MAX_KEPT: Final = 1000
_MAX_REFERENCES: Final = 200
_KEEP_MISSING_S: Final = 60.0
_BACK_OFF_S: Final = 1.0, 60.0

_PATHS: Final = {
    "id": "/schemas/ids/{}",
    "guid": "/schemas/guids/{}",
    "global_id": "/ids/globalIds/{}",
    "content_id": "/ids/contentIds/{}",
}
_JSON_SCHEMA_KEYWORDS: Final = {
    "$schema",
    "$id",
    "$ref",
    "properties",
    "definitions",
    "$defs",
    "anyOf",
    "oneOf",
    "allOf",
}
#: The beginnings of paths in Apicurio's own API.
_APICURIO: Final = ("/ids/", "/groups/")
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json;q=0.9, */*;q=0.1"


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """The registry's URL, without credentials, and how to authenticate.

    `authorization` is the value of the header of that name. `tls` has the CAs and the client's certificate.
    """

    url: str
    authorization: str | None = None
    tls: ssl.SSLContext | None = None


class _SchemaNotFound(Exception):
    """The registry answered that there is no such schema."""


class _RegistryError(Exception):
    """The registry did not answer, or its answer was not a schema. The message is a clause."""


class SchemaRegistry:
    """A schema registry that is queried over HTTP.

    Args:
        access: Its URL and credentials.
        timeout: The time limit of a request in seconds.
        now: The monotonic clock in seconds.
    """

    def __init__(
        self, access: RegistryAccess, *, timeout: float = _TIMEOUT_S, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._access = access
        self._name = urlsplit(access.url).netloc
        self._timeout = timeout
        self._now = now
        self._schemas: OrderedDict[SchemaKey, Schema] = OrderedDict()
        self._missing: OrderedDict[SchemaKey, tuple[float, str]] = OrderedDict()
        self._resting_until = float("-inf")
        self._rest_seconds = 0.0
        self._failure = ""

    def lookup(self, keys: Iterable[SchemaKey]) -> Mapping[SchemaKey, Schema | str]:
        """Return the schema with each of these keys, from the cache or the registry; see `SchemaSource`."""
        results: dict[SchemaKey, Schema | str] = {}
        to_fetch = []
        for key in dict.fromkeys(keys):
            if key in self._schemas:
                self._schemas.move_to_end(key)
                results[key] = self._schemas[key]
            elif key.form in ("glue", "azure"):
                results[key] = f"schemas with {key} are not fetched: put them into the --schemas directory"
            elif key in self._missing and self._missing[key][0] > self._now():
                results[key] = self._missing[key][1]
            elif key.form in _PATHS:
                to_fetch.append(key)
        if to_fetch:
            results |= asyncio.run(self._fetch_all(to_fetch))
        return results

    async def _fetch_all(self, keys: list[SchemaKey]) -> dict[SchemaKey, Schema | str]:
        headers = {"Accept": _ACCEPT}
        if self._access.authorization is not None:
            headers["Authorization"] = self._access.authorization
        limit = asyncio.Semaphore(_MAX_AT_ONCE)
        async with aiohttp.ClientSession(
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=self._timeout),
            connector=aiohttp.TCPConnector(ssl=self._access.tls or True, limit=_MAX_AT_ONCE),
        ) as session:

            async def fetch_one(key: SchemaKey) -> Schema | str:
                async with limit:
                    return await self._fetch(session, key)

            schemas = await asyncio.gather(*map(fetch_one, keys))
        return dict(zip(keys, schemas, strict=True))

    async def _fetch(self, session: aiohttp.ClientSession, key: SchemaKey) -> Schema | str:
        if self._now() < self._resting_until:
            return self._failure
        try:
            schema = await self._fetch_schema(session, key)
        except _SchemaNotFound:
            reason = NotRegistered(f"the registry {self._name} has no schema with {key}")
            _add_to_cache(self._missing, key, (self._now() + _KEEP_MISSING_S, reason))
            return reason
        except _RegistryError as error:
            self._rest_seconds = min(max(self._rest_seconds * 2, _BACK_OFF_S[0]), _BACK_OFF_S[1])
            self._resting_until = self._now() + self._rest_seconds
            self._failure = f"the registry {self._name} {error}"
            return self._failure
        self._rest_seconds = 0.0
        _add_to_cache(self._schemas, key, schema)
        return schema

    async def _fetch_schema(self, session: aiohttp.ClientSession, key: SchemaKey) -> Schema:
        path = _PATHS[key.form].format(quote(str(key.value), safe=""))
        schema = await self._build_schema(session, await self._fetch_answer(session, path), {})
        if key.form != "id":
            return schema
        subjects = await self._fetch_subjects(session, path)
        return replace(schema, subject=subjects[0] if subjects else None, subjects=subjects)

    async def _fetch_answer(self, session: aiohttp.ClientSession, path: str) -> Any:
        """Fetch an answer, and return it in Confluent's form: Apicurio has schema, type and references separately."""
        if not path.startswith(_APICURIO):
            return _parse_json((await self._get(session, path))[0])
        is_v3 = path.startswith("/groups/") and not self._access.url.rstrip("/").endswith("/v2")
        text, type_ = await self._get(session, f"{path}/content" if is_v3 else path)
        references = _parse_json((await self._get(session, f"{path}/references"))[0])
        return {"schema": text, "schemaType": type_ or _guess_type(text), "references": references}

    async def _build_schema(
        self,
        session: aiohttp.ClientSession,
        response: Any,
        known_schemas: dict[str, Schema],
        path: str | None = None,
        subject: str | None = None,
    ) -> Schema:
        """Return the schema in an answer, with its references; fetch those whose paths are not in `known_schemas`."""
        if not isinstance(response, dict) or not isinstance(response.get("schema"), str):
            raise _RegistryError("answered something that is no schema")
        references: dict[str, Schema] = {}
        schema = Schema(str(response.get("schemaType") or "AVRO"), response["schema"], subject, references)
        if path is not None:
            known_schemas[path] = schema  # before its references, which may be circular
        declared_references = response.get("references") or []
        if not isinstance(declared_references, list):
            declared_references = [None]
        for reference in declared_references:
            name, reference_path, reference_subject = _reference(reference)
            if len(known_schemas) >= _MAX_REFERENCES:
                raise _RegistryError(f"answered a schema with more than {_MAX_REFERENCES} references")
            if reference_path not in known_schemas:
                await self._build_schema(
                    session,
                    await self._fetch_answer(session, reference_path),
                    known_schemas,
                    reference_path,
                    reference_subject,
                )
            references[name] = known_schemas[reference_path]
        return schema

    async def _fetch_subjects(self, session: aiohttp.ClientSession, path: str) -> tuple[str, ...]:
        """Return the subjects with the schema; empty if the registry does not report them, like Karapace before 3.4."""
        try:
            subjects = _parse_json((await self._get(session, f"{path}/subjects"))[0])
        except (_SchemaNotFound, _RegistryError):
            return ()
        return tuple(map(str, subjects)) if isinstance(subjects, list) else ()

    async def _get(self, session: aiohttp.ClientSession, path: str) -> tuple[str, str | None]:
        """Send a GET request; return the body of the answer and, from Apicurio, the type of the artifact."""
        try:
            async with session.get(self._access.url.rstrip("/") + path, allow_redirects=False) as response:
                if response.status == 404:
                    raise _SchemaNotFound
                if response.status != 200:
                    hint = ": check the credentials" if response.status in (401, 403) else ""
                    raise _RegistryError(f"answered with status {response.status}{hint}")
                body = await response.content.read(_MAX_BYTES + 1)
                while len(body) <= _MAX_BYTES and (chunk := await response.content.read(_MAX_BYTES + 1)):
                    body += chunk
                type_ = response.headers.get("X-Registry-ArtifactType")
        except TimeoutError:
            raise _RegistryError(f"did not answer within {self._timeout:g} s") from None
        except aiohttp.ClientConnectorCertificateError as error:
            reason = getattr(error.certificate_error, "verify_message", "") or "not valid"
            raise _RegistryError(f"presented a certificate that was rejected: {reason}; check --registry-ca") from None
        except aiohttp.ClientConnectorError as error:
            raise _RegistryError(f"cannot be reached: {_reason(error.os_error)}") from None
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise _RegistryError(f"cannot be queried: {type(error).__name__}") from None
        if len(body) > _MAX_BYTES:
            raise _RegistryError("answered more than 4 MiB")
        try:
            return body.decode(), type_
        except UnicodeDecodeError:
            raise _RegistryError("answered something that is not text") from None


def _reference(declared: Any) -> tuple[str, str, str | None]:
    """Return the name, the schema's path and the subject of a reference."""
    try:
        name, version = str(declared["name"]), quote(str(declared["version"]), safe="")
        if "artifactId" not in declared:
            subject = str(declared["subject"])
            return name, f"/subjects/{quote(subject, safe='')}/versions/{version}", subject
        group, artifact = (
            quote(str(name), safe="") for name in (declared.get("groupId") or "default", declared["artifactId"])
        )
    except (TypeError, KeyError):
        raise _RegistryError("answered references without name, subject and version") from None
    return name, f"/groups/{group}/artifacts/{artifact}/versions/{version}", None


def _guess_type(text: str) -> str:
    """Guess the type of a schema, which Apicurio's API v2 does not return."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return "PROTOBUF"
    return "JSON" if isinstance(schema, dict) and not _JSON_SCHEMA_KEYWORDS.isdisjoint(schema) else "AVRO"


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or 'no reason'})"
    return os.strerror(error.errno) if error.errno else type(error).__name__


def _add_to_cache(cache: OrderedDict[SchemaKey, Any], key: SchemaKey, entry: object) -> None:
    cache[key] = entry
    if len(cache) > _MAX_KEPT:
        cache.popitem(last=False)


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _RegistryError("answered something that is not JSON") from None
