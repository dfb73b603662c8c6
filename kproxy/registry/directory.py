"""Schemas from the files in a directory.

The name of a file contains the schema's id, its subject, or both: ``17.avsc``, ``orders-value.proto``,
``17.orders-value.json``. An id is a number (Confluent's or Apicurio's), a UUID (Confluent's GUID, or AWS Glue's) or 32
hex digits (Azure's). Other files can refer to every file: by the full name of an Avro type, else by the path in the
directory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from dissectors.values import NotListed, Schema, SchemaKey
from dissectors.values.avro_schema import full_name
from dissectors.values.errors import SchemaError
from kproxy.errors import UserError

_TYPES: Final = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
_ID = re.compile(r"(?P<number>\d{1,19})|(?P<uuid>[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})|(?P<hex>[0-9a-f]{32})")
_MAX_BYTES = 4 << 20
_MAX_FILES = 10_000


class SchemaDirectory:
    """The schemas in a directory and its subdirectories, which are read once.

    Raises:
        UserError: The directory or a file cannot be read, or two files have the same id.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        references: dict[str, dict[str, Schema]] = {type_: {} for type_ in _TYPES.values()}
        self._schemas: dict[SchemaKey, Schema] = {}
        if not path.is_dir():
            raise UserError(f"--schemas {path}: no such directory")
        for file in _schema_files(path):
            type_ = _TYPES[file.suffix]
            keys, subject = _keys_and_subject(file.stem)
            schema = Schema(type_, _read_text(file), subject, references[type_], (subject,) if subject else ())
            references[type_][_reference_name(schema, file.relative_to(path))] = schema
            for key in keys:
                if key in self._schemas and key.form != "subject":  # referenced files may have equal names
                    raise UserError(f"--schemas {path}: two files have the {key}; rename one of them")
                self._schemas[key] = schema
        self._forms = {key.form for key in self._schemas}

    def lookup(self, keys: Iterable[SchemaKey]) -> Mapping[SchemaKey, Schema | str]:
        """Return the schema with each of these keys, or why there is none; see `SchemaSource`."""
        return {key: self._schemas.get(key) or self._missing_reason(key) for key in keys}

    def _missing_reason(self, key: SchemaKey) -> str:
        text = f"{self._path} has no schema with {key}"
        return NotListed(text) if key.form in self._forms else text


def _schema_files(path: Path) -> list[Path]:
    files = sorted(file for file in path.rglob("*") if file.suffix in _TYPES and file.is_file())
    if not files:
        raise UserError(f"--schemas {path}: no .avsc, .proto or .json file in this directory")
    if len(files) > _MAX_FILES:
        raise UserError(f"--schemas {path}: more than {_MAX_FILES} files; choose a directory of schemas alone")
    return files


def _read_text(file: Path) -> str:
    try:
        with file.open(encoding="utf-8-sig") as f:
            text = f.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"--schemas: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"--schemas: {file} is not text in UTF-8") from None
    if len(text) > _MAX_BYTES:
        raise UserError(f"--schemas: {file} has more than 4 MiB, which no schema has")
    return text


def _keys_and_subject(stem: str) -> tuple[list[SchemaKey], str | None]:
    """Return the keys and the subject in the name of a file."""
    id_text, _, rest = stem.partition(".")
    match = _ID.fullmatch(id_text.lower())
    if match is None:
        return [SchemaKey("subject", stem)], stem
    subject = rest or None
    if match["number"]:
        return [SchemaKey(form, int(id_text)) for form in ("id", "global_id", "content_id")], subject
    if match["uuid"]:
        return [SchemaKey(form, id_text.lower()) for form in ("guid", "glue")], subject
    return [SchemaKey("azure", id_text.lower())], subject


def _reference_name(schema: Schema, relative_path: Path) -> str:
    if schema.type == "AVRO":
        try:
            return full_name(json.loads(schema.text))
        except (SchemaError, ValueError, RecursionError):
            pass  # it has no name or is invalid; values that need it report that
    return relative_path.as_posix()
