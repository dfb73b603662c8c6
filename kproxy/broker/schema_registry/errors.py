"""Errors of the REST API, with the codes and messages of Confluent's registry.

Source: Confluent's io.confluent.kafka.schemaregistry.rest.exceptions.Errors.
"""

from __future__ import annotations

from http import HTTPStatus

from dissectors.values.schemas_topic import SchemaReference


class RestError(Exception):
    """Answers a request with a status, and a body of ``error_code`` and ``message``."""

    def __init__(self, status: HTTPStatus, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def _not_found(code: int, message: str) -> RestError:
    return RestError(HTTPStatus.NOT_FOUND, code, message)


def _unprocessable_error(code: int, message: str) -> RestError:
    return RestError(HTTPStatus.UNPROCESSABLE_ENTITY, code, message)


def subject_not_found(subject: str) -> RestError:
    return _not_found(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RestError:
    return _not_found(40402, f"Version {version} not found.")


def schema_not_found(key: str = "") -> RestError:
    return _not_found(40403, f"Schema {key} not found" if key else "Schema not found")


def subject_soft_deleted(subject: str) -> RestError:
    return _not_found(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RestError:
    return _not_found(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RestError:
    return _not_found(
        40406, f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    )


def version_not_soft_deleted(subject: str, version: int) -> RestError:
    return _not_found(
        40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def no_compatibility(subject: str) -> RestError:
    return _not_found(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_mode(subject: str) -> RestError:
    return _not_found(40409, f"Subject '{subject}' does not have subject-level mode configured")


def invalid_schema(reason: str) -> RestError:
    return _unprocessable_error(42201, f"Invalid schema: {reason}")


def missing_reference(reference: SchemaReference) -> RestError:
    location = f'subject "{reference.subject}" and version {reference.version}'
    return _unprocessable_error(42201, f"Invalid schema: No schema reference found for {location}")


def invalid_version(version: str) -> RestError:
    return _unprocessable_error(
        42202,
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> RestError:
    levels = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
    return _unprocessable_error(42203, f"Invalid compatibility level. Valid values are {levels}")


def invalid_mode() -> RestError:
    return _unprocessable_error(42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, IMPORT")


def not_permitted(reason: str) -> RestError:
    return _unprocessable_error(42205, reason)


def is_referenced(subject: str, version: int) -> RestError:
    return _unprocessable_error(
        42206,
        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
    )


def incompatible(subject: str, details: str) -> RestError:
    return RestError(
        HTTPStatus.CONFLICT,
        409,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{details}]',
    )


def not_json() -> RestError:
    return RestError(HTTPStatus.BAD_REQUEST, 400, "the body is not a JSON object")


def store_failed(reason: str) -> RestError:
    return RestError(HTTPStatus.INTERNAL_SERVER_ERROR, 50001, f"Error in the backend data store: {reason}")
