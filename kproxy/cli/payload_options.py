"""The options for the keys and values of records: whether to decode them, with which schemas, and what to mask."""

from __future__ import annotations

import argparse
import base64
import importlib.util
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from kproxy.cli import options
from kproxy.errors import UserError

if TYPE_CHECKING:
    from kproxy.inspection.record_values import RecordValues
    from kproxy.inspection.text_masks import TextMasks
    from kproxy.proxy.address import TcpAddress
    from kproxy.registry.http import RegistryAccess
    from kproxy.trace.lines import Detail

_SECRET = "KPROXY_REGISTRY_SECRET"  # noqa: S105
_MASKS = ("mask", "mask_tag", "mask_text")
_NEED_PAYLOADS = ("schemas", "registry", *_MASKS)
_NEED_REGISTRY = ("registry_user", "registry_secret_file", "registry_ca", "registry_cert", "registry_key")
_PACKAGES = ("aiohttp", "cbor2", "google.protobuf", "jsonschema", "proto_schema_parser", "re2")


def configure(parser: options.OptionGroup, *, masks: bool = True) -> None:
    """Declare the options. A command that decodes bytes pasted by the user needs no `masks`."""
    group = parser.add_argument_group("records")

    def add_file_option(option: str, help_: str, metavar: str = "PEM") -> None:
        options.set_completion(group.add_argument(option, metavar=metavar, help=help_), options.FILE)

    group.add_argument("--payloads", action="store_true",
                       help="decode keys, values and headers of records (implies --detail full)")  # fmt: skip
    options.set_completion(
        group.add_argument("--schemas", metavar="DIR",
                           help="schemas by id or subject: 17.avsc, orders-value.proto, ..."),
        options.DIRECTORY,
    )  # fmt: skip
    group.add_argument("--registry", metavar="URL", help="fetch schemas from this registry")
    group.add_argument("--registry-user", metavar="NAME", help="log in to the registry as this user")
    add_file_option(
        "--registry-secret-file", f"a file with the user's password, or with a token (default: ${_SECRET})", "FILE"
    )
    add_file_option("--registry-ca", "the CAs that sign the registry's certificate (default: those of the system)")
    add_file_option("--registry-cert", "a client certificate, for registries that require one")
    add_file_option("--registry-key", "the private key of --registry-cert")
    if masks:
        group.add_argument(
            "--mask",
            metavar="PATH",
            action="append",
            default=[],
            help="never show this part of records: value.card.number, orders:key, header.authorization; repeatable",
        )
        group.add_argument(
            "--mask-tag",
            metavar="TAG",
            action="append",
            default=[],
            help="never show fields with this tag in their schema (confluent:tags), e.g. PII; repeatable",
        )
        group.add_argument(
            "--mask-text",
            metavar="REGEX",
            action="append",
            default=[],
            help="never show text or numbers in records that match this regular expression (RE2); repeatable",
        )


def check_filter(args: argparse.Namespace) -> None:
    """Check that records are decoded if the filter reads them.

    Raises:
        UserError: They are not decoded, or the filter is invalid.
    """
    from kproxy.outputs.line_outputs import filter_for

    parsed_filter = filter_for(args.filter)
    if parsed_filter is not None and parsed_filter.reads_records and not getattr(args, "payloads", False):
        raise UserError("the filter reads keys, values or headers of records: pass --payloads")


def detail_of(args: argparse.Namespace) -> Detail:
    """Return how much detail lines have."""
    from kproxy.trace.lines import Detail

    return Detail.FULL if args.payloads and args.detail == Detail.SUMMARY else Detail(args.detail)


def use_own_registry(args: argparse.Namespace, address: TcpAddress) -> None:
    """Fetch schemas from the registry of --registry-listen, unless another is given or its port is not yet known."""
    if args.payloads and not args.registry and address.port and _missing_package() is None:
        host = "localhost" if address.host in ("", "0.0.0.0", "::") else address.host  # noqa: S104
        args.registry = f"http://{replace(address, host=host)}"


def record_values_of(args: argparse.Namespace, *, in_background: bool = False) -> RecordValues | None:
    """Return the decoder of records, or None without --payloads. The first call reads the files.

    With `in_background`, decoding does not wait for the registry.

    Raises:
        UserError: Options cannot be combined, a file cannot be used, or a package is missing.
    """
    if not hasattr(args, "record_values"):  # all inputs share one decoder, with its cache
        args.record_values = _record_values(args, in_background=in_background)
    record_values: RecordValues | None = args.record_values
    return record_values


def _record_values(args: argparse.Namespace, *, in_background: bool) -> RecordValues | None:
    if not args.payloads:
        option = next((name for name in (*_NEED_PAYLOADS, *_NEED_REGISTRY) if getattr(args, name, None)), None)
        if option:
            raise UserError(f"--{option.replace('_', '-')} needs --payloads")
        return None
    from kproxy.inspection.masks import Masks

    masks = Masks(getattr(args, "mask", ()), getattr(args, "mask_tag", ()), text_masks(getattr(args, "mask_text", [])))
    if masks and args.detail == "raw":
        option = next(name for name in _MASKS if getattr(args, name))
        raise UserError(
            f"--{option.replace('_', '-')} cannot mask the bytes of frames: do not pass --detail raw with it"
        )
    if not args.registry and (option := next((name for name in _NEED_REGISTRY if getattr(args, name)), None)):
        raise UserError(f"--{option.replace('_', '-')} needs --registry URL")
    if (args.schemas or args.registry) and (missing := _missing_package()):
        from kproxy.io.extras import install_command

        raise UserError(f"schemas need the package {missing}: {install_command('payloads')}")
    from kproxy.inspection.record_values import RecordValues
    from kproxy.registry import SchemaSource, SchemaSources

    sources: list[SchemaSource] = []
    if args.schemas:
        from kproxy.registry.directory import SchemaDirectory

        sources.append(SchemaDirectory(Path(args.schemas)))
    if args.registry:
        from kproxy.registry.background import BackgroundSource
        from kproxy.registry.http import SchemaRegistry

        registry = SchemaRegistry(_registry_access(args))
        sources.append(BackgroundSource(registry) if in_background else registry)
    return RecordValues(SchemaSources(sources), masks)


def text_masks(expressions: list[str]) -> TextMasks | None:
    """Return the masks of `--mask-text`, or None without it.

    Raises:
        UserError: An expression is invalid, or the package is missing.
    """
    if not expressions:
        return None
    if importlib.util.find_spec("re2") is None:
        from kproxy.io.extras import install_command

        raise UserError(f"--mask-text needs the package google-re2: {install_command('payloads')}")
    from kproxy.inspection.text_masks import TextMasks

    return TextMasks(expressions)


def _missing_package() -> str | None:
    for name in _PACKAGES:
        try:
            if importlib.util.find_spec(name) is None:
                return name
        except ModuleNotFoundError:
            return name
    return None


def _registry_access(args: argparse.Namespace) -> RegistryAccess:
    from kproxy.proxy.tls.contexts import TlsFileError, client_context
    from kproxy.registry.http import RegistryAccess

    try:
        url = urlsplit(args.registry)
        url.port  # noqa: B018  # raises ValueError if it is invalid
    except ValueError:
        url = urlsplit("")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise UserError("--registry: pass a URL, such as http://localhost:8081")
    if url.username or url.password:
        raise UserError("--registry: pass the user with --registry-user, not in the URL, where others can see it")
    if url.query or url.fragment or "?" in args.registry or "#" in args.registry:
        raise UserError(
            "--registry: pass a URL without ? and #, since paths are added to it; "
            f"a token belongs into ${_SECRET} or --registry-secret-file FILE"
        )
    if url.scheme == "http" and (args.registry_ca or args.registry_cert or args.registry_key):
        raise UserError("--registry-ca, --registry-cert and --registry-key need an https:// URL")
    if (args.registry_cert is None) != (args.registry_key is None):
        raise UserError("--registry-cert and --registry-key must be used together")
    tls = None
    if url.scheme == "https":
        files = (Path(name) if name else None for name in (args.registry_ca, args.registry_cert, args.registry_key))
        try:
            tls = client_context(*files, verify=True, prefix="--registry-")
        except TlsFileError as error:
            raise UserError(str(error)) from None
    return RegistryAccess(urlunsplit(url), _authorization(args), tls)


def _authorization(args: argparse.Namespace) -> str | None:
    secret = os.environ.get(_SECRET)
    if args.registry_secret_file is not None:
        try:
            secret = Path(args.registry_secret_file).read_text().strip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not text"
            raise UserError(
                f"--registry-secret-file {args.registry_secret_file}: {reason}; choose another file"
            ) from None
    if args.registry_user is None:
        return f"Bearer {secret}" if secret else None
    if not secret:
        raise UserError(f"--registry-user needs a password: pass --registry-secret-file FILE, or set ${_SECRET}")
    return "Basic " + base64.b64encode(f"{args.registry_user}:{secret}".encode()).decode()
