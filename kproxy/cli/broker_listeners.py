"""Listeners of the built-in broker: ``--listen`` and ``--advertised``, with optional listener names."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kproxy.errors import UserError

if TYPE_CHECKING:
    from kproxy.proxy.address import TcpAddress

_NAMED = re.compile(r"([A-Za-z][\w.-]*)://(.*)", re.ASCII | re.DOTALL)


def listener_names(args: argparse.Namespace) -> list[str]:
    """Return the names of the listeners in the given order; empty if they are not named."""
    return [name for name in _group_by_name("--listen", args.listen) if name]


def broker_count(args: argparse.Namespace) -> int:
    """Return the number of brokers: the largest number of addresses of one listener."""
    return max(map(len, _group_by_name("--listen", args.listen).values()), default=1)


def listen_addresses(args: argparse.Namespace, brokers: int) -> list[TcpAddress]:
    """Return the listen addresses of all brokers for the first listener, then those for the next listener, and so on.

    Raises:
        UserError: An address is invalid.
    """
    addresses_by_name = _group_by_name("--listen", args.listen)
    return [
        address for texts in addresses_by_name.values() for address in _broker_addresses("--listen", texts, brokers)
    ]


def advertised_addresses(
    args: argparse.Namespace, brokers: int
) -> Sequence[tuple[str, int]] | Mapping[str, Sequence[tuple[str, int]]]:
    """Return the advertised addresses by listener; a plain sequence if there is only one unnamed listener.

    Raises:
        UserError: An address is invalid, or its listener does not exist.
    """
    listeners = listener_names(args)
    advertised_by_name = {}
    for name, texts in _group_by_name("--advertised", args.advertised or ()).items():
        if name and name not in listeners:
            hint = f"use {', '.join(listeners)}" if listeners else "--listen has no names"
            raise UserError(f"--advertised {name}://{texts[0]}: unknown listener {name}: {hint}")
        if not name and len(listeners) > 1:
            raise UserError(f"--advertised {texts[0]}: name its listener, e.g. {listeners[0]}://{texts[0]}")
        advertised_by_name[name] = [
            _advertised_address(address) for address in _broker_addresses("--advertised", texts, brokers)
        ]
    return advertised_by_name.get("", advertised_by_name)


def _group_by_name(option: str, texts: Sequence[str]) -> dict[str, list[str]]:
    """Group addresses such as ``SSL://9093`` by listener name, which is ``""`` for addresses without one."""
    values: dict[str, list[str]] = {}
    for text in texts:
        match = _NAMED.fullmatch(text)
        name, address = (match[1].upper(), match[2]) if match else ("", text)
        values.setdefault(name, []).append(address)
    if "" in values and len(values) > 1:
        unnamed = values[""][0]
        raise UserError(f"{option} {unnamed}: name this listener like the others, e.g. {option} PLAINTEXT://{unnamed}")
    return values


def _broker_addresses(option: str, texts: Sequence[str], brokers: int) -> list[TcpAddress]:
    """Return an address for each broker: those given, or the only one given and the ports that follow it."""
    from kproxy.proxy.address import TcpAddress, parse_listen

    broker_addresses = []
    for text in texts:
        try:
            address = parse_listen(text, option)
        except ValueError as error:
            raise UserError(str(error)) from None
        if not isinstance(address, TcpAddress):
            raise UserError(f"{option} {text}: the built-in broker needs a TCP port to advertise to clients")
        broker_addresses.append(address)
    if len(broker_addresses) not in (1, brokers):
        raise UserError(
            f"{option} is given {len(broker_addresses)} times for {brokers} brokers: pass it once, or once per broker"
        )
    first, missing_count = broker_addresses[0], brokers - len(broker_addresses)
    if first.port and first.port + missing_count > 65535:
        raise UserError(f"{option} {first}: {brokers} brokers need {brokers} ports, up to 65535")
    return broker_addresses + [
        TcpAddress(first.host, first.port and first.port + index) for index in range(1, missing_count + 1)
    ]


def _advertised_address(address: TcpAddress) -> tuple[str, int]:
    if not address.port:
        raise UserError(f"--advertised {address}: clients need a port from 1 to 65535")
    return address.host or "localhost", address.port
