"""``--advertise`` and ``--cap-versions``: what the relay changes in frames."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kproxy.errors import UserError

if TYPE_CHECKING:
    from kproxy.proxy.advertised_listeners import Advertise
    from kproxy.proxy.broker_names import BrokerNames
    from kproxy.proxy.interception import Rewriting
    from kproxy.proxy.listener import Listener


def rewriting_of(args: argparse.Namespace, listeners: Sequence[Listener]) -> Rewriting:
    """Return what the relay changes in frames, according to the options.

    Raises:
        UserError: An option is invalid, or does not match the listeners.
    """
    from kproxy.proxy.advertised_listeners import check_listeners
    from kproxy.proxy.interception import Rewriting

    advertise = None if args.advertise is None else _parse_advertise(args.advertise)
    if advertise is not None and (problem := check_listeners(listeners, advertise)):
        raise UserError(problem)
    return Rewriting(advertise, args.cap_versions)


def _parse_advertise(text: str) -> Advertise:
    from kproxy.proxy.advertised_listeners import Advertise
    from kproxy.proxy.broker_names import PLACEHOLDER

    host, separator, ports = text.rpartition(":") if ":" in text.rpartition("]")[2] else (text, "", "")
    if host.count(":") > 0 and not (host.startswith("[") and host.endswith("]")):
        raise UserError(f"--advertise {text!r} is an IPv6 address without brackets: use the form [::1]:9093")
    if separator and not ports:
        raise UserError(f"--advertise {text!r} has no port: use {host or 'HOST'}:9093, or only {host or 'HOST'}")
    if PLACEHOLDER in host:
        return Advertise(names=_parse_names(text, host, ports))
    base_port = None
    ports_by_id: dict[int, int] = {}
    for entry in ports.split(",") if ports else ():
        node_id, equals, port = entry.rpartition("=")
        if not equals and base_port is None:
            base_port = _parse_port(text, port, min_port=0)
        elif equals and node_id.isdecimal() and int(node_id) not in ports_by_id:
            ports_by_id[int(node_id)] = _parse_port(text, port, min_port=1)
        else:
            raise UserError(f"--advertise {text!r}: cannot read {entry!r}: use HOST:PORT, or HOST:ID=PORT,ID=PORT")
    if len(set(ports_by_id.values())) < len(ports_by_id):
        raise UserError(f"--advertise {text!r}: two brokers have the same port: give each its own")
    return Advertise(host.strip("[]") or None, base_port, ports_by_id)


def _parse_names(text: str, pattern: str, port: str) -> BrokerNames:
    from kproxy.proxy.broker_names import PLACEHOLDER, BrokerNames

    name = pattern.replace(PLACEHOLDER, "1", 1)
    if re.fullmatch(r"(?!-)[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.?", name) is None:
        raise UserError(
            f"--advertise {text!r}: use a host name with $id in it once, e.g. 'broker-$id.kafka.example.com'"
        )
    return BrokerNames(pattern, _parse_port(text, port, min_port=1) if port else None)


def _parse_port(text: str, port: str, *, min_port: int) -> int:
    if not (port.isascii() and port.isdecimal()) or not min_port <= int(port) <= 65535:
        raise UserError(f"--advertise {text!r}: invalid port {port!r}: use {min_port} to 65535")
    return int(port)
