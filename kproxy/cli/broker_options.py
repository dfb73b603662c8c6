"""The options of the built-in broker, which runs when ``--upstream`` has no value."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli import broker_listeners, options, tls
from kproxy.errors import UserError

if TYPE_CHECKING:
    from kproxy.broker import BrokerOptions

#: The parsed value of an ``--upstream`` that is given without a value.
BUILT_IN = ""


def configure(parser: options.OptionGroup) -> None:
    """Declare the options."""
    group = parser.add_argument_group("built-in broker (--upstream without a value)")
    group.add_argument("--brokers", type=int, metavar="N", help="run a cluster of N brokers on consecutive ports")
    group.add_argument(
        "--advertised", action="append", metavar="HOST:PORT",
        help="advertise this address to clients instead of the --listen address, like advertised.listeners; use "
        "NAME://HOST:PORT with several listeners",
    )  # fmt: skip
    group.add_argument(
        "--kafka",
        metavar="RELEASE",
        help="behave like this Kafka release, 0.10 to 4.4, e.g. 2.8 (default: all versions it knows)",
    )
    group.add_argument("--topic", action="append", metavar="NAME[:PARTITIONS]", help="create a topic at startup")
    group.add_argument("--config", action="append", metavar="KEY=VALUE", help="set a broker config, as in Kafka")
    group.add_argument(
        "--quirk", action="append", metavar="QUIRK", help="reproduce this broker bug; kproxy quirks lists them"
    )
    options.set_completion(
        group.add_argument(
            "--data",
            type=Path,
            metavar="DIR",
            help="store topics, offsets and groups in this directory (default: in memory)",
        ),
        options.DIRECTORY,
    )
    group.add_argument("--fsync", action="store_true", help="acknowledge acks=all only after fsync (needs --data)")
    group.add_argument(
        "--retention", type=options.size, metavar="SIZE",
        help="keep at most this much record data in total, e.g. 200M (default: 1G); the oldest is deleted first",
    )  # fmt: skip
    group.add_argument(
        "--registry-listen",
        metavar="[HOST:]PORT",
        help="run a schema registry with Confluent's REST API here, stored in _schemas (default host: loopback)",
    )
    group.add_argument(
        "--sasl",
        action="append",
        metavar="MECHANISM",
        help="require SASL login: PLAIN, SCRAM-SHA-256, OAUTHBEARER, ...",
    )
    group.add_argument("--user", action="append", metavar="NAME:PASSWORD", help="let this user log in (for tests only)")
    group.add_argument(
        "--acls", action="store_true", help="enforce ACLs; until one allows it, every operation is denied"
    )
    group.add_argument(
        "--super-user", action="append", metavar="PRINCIPAL", help="allow this principal everything, e.g. User:admin"
    )


def options_of(args: argparse.Namespace) -> BrokerOptions | None:
    """Return the options of the built-in broker, or None if it is not used.

    Raises:
        UserError: The options are invalid, or need the built-in broker.
    """
    settings = {name: value for name in _NAMES if (value := getattr(args, name)) not in (None, False)}
    if not any(upstream == BUILT_IN for upstream in args.upstream):
        if settings:
            flag = next(iter(settings)).replace("_", "-")
            raise UserError(f"--{flag} needs the built-in broker: pass --upstream without a value")
        return None
    from kproxy.broker.options import RETENTION_BYTES, BrokerOptions
    from kproxy.broker.security.listener import listeners_of

    if len(args.upstream) > 1:
        raise UserError(
            "the built-in broker cannot be combined with other upstreams: pass --upstream once, without a value"
        )
    if not args.listen:
        raise UserError("pass --listen PORT: the built-in broker needs an address to listen on")
    brokers = broker_listeners.broker_count(args) if args.brokers is None else args.brokers
    if not 1 <= brokers <= _MAX_BROKERS:
        raise UserError(f"invalid --brokers: use 1 to {_MAX_BROKERS}")
    broker_listeners.listen_addresses(args, brokers)
    _check(args)
    options = BrokerOptions(
        brokers=brokers,
        listeners=broker_listeners.listener_names(args),
        advertised=broker_listeners.advertised_addresses(args, brokers),
        release=args.kafka,
        data=args.data,
        fsync=args.fsync,
        retention_bytes=args.retention or RETENTION_BYTES,
        quirks=tuple(args.quirk or ()),
        sasl=tuple(args.sasl or ()),
        users=dict(_parse_user(user) for user in args.user or ()),
        acls=args.acls,
        super_users=tuple(args.super_user or ()),
        tls_certificate=args.tls_cert,
        tls_key=args.tls_key,
        tls_client_ca=args.tls_client_ca,
        topics=dict(_parse_topic(topic) for topic in args.topic or ()),
        configs=dict(_parse_config(config) for config in args.config or ()),
    )
    try:
        listeners_of(options)
    except ValueError as error:
        raise UserError(f"--listen: {error}") from None
    return options


_NAMES = (
    "brokers", "advertised", "kafka", "topic", "config", "quirk", "data", "fsync", "retention", "sasl", "user", "acls",
    "super_user", "registry_listen",
)  # fmt: skip
_MAX_BROKERS = 16
#: Broker configs that have their own command-line options.
_FLAGS = {"listeners": "--listen NAME://[HOST:]PORT", "advertised.listeners": "--advertised NAME://HOST:PORT"}


def _check(args: argparse.Namespace) -> None:
    from dissectors.schemas.lines import line
    from kproxy.broker.quirks import parse

    try:
        for quirk in args.quirk or ():
            parse(quirk)
        if args.kafka is not None:
            line(args.kafka)
    except ValueError as error:
        raise UserError(str(error)) from None
    if args.advertise is not None:
        raise UserError(
            "--advertise is for other brokers: the built-in broker advertises the addresses of --listen, or those of "
            "--advertised HOST:PORT"
        )
    if args.fsync and not args.data:
        raise UserError("--fsync needs --data DIR: without it, data is only in memory")
    if args.data and args.data.exists() and not args.data.is_dir():
        raise UserError(f"--data {args.data} is a file: pass a directory")
    tls.check_for_broker(args)
    if args.user and not args.sasl:
        raise UserError("--user needs --sasl MECHANISM: without it, clients do not log in")
    if args.super_user and not args.acls:
        raise UserError("--super-user needs --acls: without them, everybody may do everything")
    for principal in args.super_user or ():
        if not principal.startswith("User:"):
            raise UserError(f"invalid --super-user {principal!r}: use User:NAME")


def _parse_user(text: str) -> tuple[str, str]:
    name, separator, password = text.partition(":")
    if not separator or not name or not password:
        raise UserError("invalid --user: use NAME:PASSWORD")
    return name, password


def _parse_topic(text: str) -> tuple[str, int]:
    from kproxy.broker.errors import ApiError
    from kproxy.broker.topics import check_name

    name, separator, partitions = text.rpartition(":")
    if not separator:
        name, partitions = text, "1"
    if not partitions.isdecimal() or not 1 <= int(partitions) <= 10_000:
        raise UserError(f"invalid --topic {text!r}: use NAME or NAME:PARTITIONS, with 1 to 10000 partitions")
    try:
        check_name(name)
    except ApiError as api_error:
        raise UserError(f"--topic {text!r}: {api_error}; use letters, digits, '.', '_' and '-'") from None
    return name, int(partitions)


def _parse_config(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UserError(f"invalid --config {text!r}: use KEY=VALUE, e.g. auto.create.topics.enable=false")
    if key in _FLAGS:
        raise UserError(
            f"--config {key} is not supported: use {_FLAGS[key]}, which the proxy in front of the broker needs too"
        )
    return key, value
