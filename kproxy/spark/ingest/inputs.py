"""Finds the files of traces and captures at given paths: local paths, and any that Spark can read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from kproxy.capture.inputs import NO_INPUT, is_input, is_trace
from kproxy.errors import UserError
from kproxy.spark.ingest.decode import final_path, is_growing, local_path, uri_of
from kproxy.spark.ingest.local_files import files_below, glob_paths, local_input, local_output
from kproxy.spark.session.embedded_engine import is_embedded
from kproxy.trace.reader import SUFFIXES


@dataclass(frozen=True, slots=True)
class File:
    """An input file: its URI, its path for Spark, and its size in bytes."""

    uri: str
    path: str
    size: int

    @property
    def plain(self) -> bool:
        """Whether Spark can read its lines by itself."""
        return self.path.endswith(".jsonl")

    @property
    def is_local(self) -> bool:
        """Whether Python can open it: it is not in a Hadoop file system (s3a, hdfs, ...)."""
        return self.uri.startswith("file:")


def find_files(
    spark: SparkSession | None,
    paths: Iterable[str],
    *,
    growing: bool = False,
    on_empty: Callable[[str], object] = lambda path: None,
) -> list[File]:
    """Return the traces and captures that paths and globs name or contain, without duplicates, sorted by URI.

    With `growing`, traces that are being written in local directories are included. `on_empty` is called with the path
    of each file of 0 bytes; these files are left out. Without a classic session of Spark, all paths are local.

    Raises:
        UserError: A path does not exist or has no input.
    """
    files_by_uri: dict[str, File] = {}
    for path in paths:
        # Growing files first: a file that is renamed meanwhile is then in both lists, not in neither.
        growing_files = _growing(path) if growing else []
        listed_files = [file for file in _list_files(spark, path, on_empty) if growing or not is_growing(file.uri)]
        new_files = {file.uri: file for file in (*listed_files, *growing_files)}
        if not new_files:
            raise UserError(f"{path}: {NO_INPUT} in it")
        files_by_uri |= new_files
    return [
        files_by_uri[uri] for uri in sorted(files_by_uri) if not (is_growing(uri) and final_path(uri) in files_by_uri)
    ]


def _list_files(spark: SparkSession | None, path: str, on_empty: Callable[[str], object]) -> list[File]:
    if (root := local_input(spark, path)) is not None:
        with contextlib.suppress(OSError):  # Spark reports it
            return _list_local(root, on_empty)
    if spark is None or is_embedded(spark):
        return _list_by_python(path, on_empty)
    try:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
        rows = files.select("_metadata.file_path", "path", "length").collect()
        all_uris = files.inputFiles()  # the rows lack files of 0 bytes
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise UserError(f"{path}: no such file or directory") from None
    explicit_uri = _explicit_uri(path)
    for empty_path in sorted({_readable_path(uri) for uri in all_uris} - {_readable_path(uri) for uri, _, _ in rows}):
        if is_input(empty_path):
            on_empty(empty_path)
    return [
        File(uri, file_path, length) for uri, file_path, length in rows if is_input(file_path) or uri == explicit_uri
    ]


def _list_by_python(path: str, on_empty: Callable[[str], object]) -> list[File]:
    root = local_output(None, path)
    if root is None:
        raise UserError(f"{path}: only Spark reads such a path: pass --engine spark")
    try:
        matches = [root] if root.exists() else glob_paths(path)
        files = [file for match in matches for file in _list_local(match, on_empty)]
    except OSError as error:
        raise UserError(f"{error.filename or path}: {error.strerror}") from None
    if not matches:
        raise UserError(f"{path}: no such file or directory")
    return files


def _list_local(root: Path, on_empty: Callable[[str], object]) -> list[File]:
    """List the same local files as Spark would, but without a job for each path."""
    entries = sorted(files_below(root))
    for path, size in entries:
        if not size and is_input(path.name):
            on_empty(str(path.absolute()))
    explicit_uri = _explicit_uri(str(root))
    files = [File(uri_of(path), f"file:{path.absolute()}", size) for path, size in entries if size]
    return [file for file in files if is_input(file.path) or file.uri == explicit_uri]


def _explicit_uri(path: str) -> str | None:
    """Return the URI of a local file that was given explicitly although its name is not that of an input."""
    local = _as_local_path(path)
    if local is None or is_input(local.name) or not local.is_file():
        return None
    try:
        is_trace(local)
    except OSError as error:
        raise UserError(f"{local}: {error.strerror}") from None
    return uri_of(local)


def _readable_path(uri: str) -> str:
    """Return the path of a local file, or another file's URI in readable form."""
    return str(local_path(uri)) if uri.startswith("file:") else unquote(uri)


def _as_local_path(path: str) -> Path | None:
    """Return a path as Spark understands it, in which %XX is literal; None if it is not local."""
    return Path(path.removeprefix("file:")) if urlsplit(path).scheme in ("", "file") else None


def _growing(path: str) -> list[File]:
    """Return the traces at or under a path that are being written; Spark skips them as hidden files."""
    local = _as_local_path(path)
    if local is None:
        return []
    paths = local.rglob(".*.part") if local.is_dir() else [local] if local.is_file() else []
    return [File(uri_of(path), str(path), _size(path)) for path in paths if path.name.endswith(SUFFIXES)]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # renamed meanwhile
        return 0
