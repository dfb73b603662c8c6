"""Operations on compatibility levels and modes, of the registry and of subjects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.schema_registry import errors
from kproxy.broker.schema_registry.compatibility import DEFAULT_LEVEL, LEVELS
from kproxy.broker.schema_registry.rest import RestRequest, rest
from kproxy.broker.schema_registry.subjects import MODES, Subjects

_DEFAULT_MODE: Final = "READWRITE"


def compatibility_level(subjects: Subjects, subject: str) -> str:
    """Return the compatibility level that applies to a subject."""
    return next(
        (level for scope in (subject, None) if (level := _configured_level(subjects, scope)) is not None), DEFAULT_LEVEL
    )


def subject_mode(subjects: Subjects, subject: str) -> str:
    """Return the mode that applies to a subject; the registry's READONLY_OVERRIDE overrides the subject's mode."""
    global_mode = subjects.modes.get(None, _DEFAULT_MODE)
    return global_mode if global_mode == "READONLY_OVERRIDE" else subjects.modes.get(subject, global_mode)


@rest("GET /config", "GET /config/{subject}")
async def get_config(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    subject = variables.get("subject")
    if subject is None or request.flag("defaultToGlobal"):
        return {"compatibilityLevel": compatibility_level(subjects, subject or "")}
    if (level := _configured_level(subjects, subject)) is None:
        raise errors.no_compatibility(subject)
    return {"compatibilityLevel": level}


@rest("PUT /config", "PUT /config/{subject}")
async def set_config(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    level = str(request.body.get("compatibility")).upper()
    if level not in LEVELS:
        raise errors.invalid_level()
    await subjects.write("CONFIG", variables.get("subject"), {"compatibilityLevel": level})
    return {"compatibility": level}


@rest("DELETE /config", "DELETE /config/{subject}")
async def delete_config(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    subject = variables.get("subject")
    level = _configured_level(subjects, subject)
    if level is None and subject is not None:
        raise errors.no_compatibility(subject)
    await subjects.write("CONFIG", subject, None)
    return {"compatibilityLevel": level or DEFAULT_LEVEL}


@rest("GET /mode", "GET /mode/{subject}")
async def get_mode(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    subject = variables.get("subject")
    if subject is None or request.flag("defaultToGlobal"):
        return {"mode": subject_mode(subjects, subject or "")}
    if subject not in subjects.modes:
        raise errors.no_mode(subject)
    return {"mode": subjects.modes[subject]}


@rest("PUT /mode", "PUT /mode/{subject}")
async def set_mode(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    mode, subject = str(request.body.get("mode")).upper(), variables.get("subject")
    if mode not in MODES:
        raise errors.invalid_mode()
    if mode == "IMPORT" and not request.flag("force"):
        schemas = subjects.all_schemas() if subject is None else subjects.versions(subject)
        if any(not schema.is_deleted for schema in schemas):
            raise errors.not_permitted("Cannot import since found existing subjects")
    await subjects.write("MODE", subject, {"mode": mode})
    return {"mode": mode}


@rest("DELETE /mode/{subject}")
async def delete_mode(subjects: Subjects, request: RestRequest, variables: Mapping[str, str]) -> Any:
    if (mode := subjects.modes.get(variables["subject"])) is None:
        raise errors.no_mode(variables["subject"])
    await subjects.write("MODE", variables["subject"], None)
    return {"mode": mode}


def _configured_level(subjects: Subjects, subject: str | None) -> str | None:
    level = subjects.configs.get(subject, {}).get("compatibilityLevel")
    return level if level in LEVELS else None
