"""DNS responses in captures that report a nonexistent name. Scapy builds the responses."""

import random

import pytest
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from kproxy.capture.names import name_not_found
from tests.kproxy.capture.packets import AT, packet


def dns_response(ip: object, name: str = "kafka-1.internal", **dns: int) -> bytes:
    fields = {"id": 7, "qr": 1, "rcode": 3, "qdcount": 1} | dns
    return bytes(Ether() / ip / UDP(sport=53, dport=40053) / DNS(qd=DNSQR(qname=name), **fields))


@pytest.mark.parametrize(("ip", "host"), [(IP(dst="10.0.0.9"), "10.0.0.9"), (IPv6(dst="fd00::9"), "fd00::9")])
def test_nonexistent_name_is_reported(ip: object, host: str) -> None:
    event = name_not_found(packet(dns_response(ip)))
    assert event is not None
    assert (event.at, event.client, event.name) == (AT, (host, 40053), "kafka-1.internal")


@pytest.mark.parametrize("dns", [{"rcode": 0}, {"rcode": 2}, {"qr": 0}])
def test_other_dns_messages_are_ignored(dns: dict[str, int]) -> None:
    assert name_not_found(packet(dns_response(IP(dst="10.0.0.9"), **dns))) is None


def test_damaged_responses_never_raise() -> None:
    rng = random.Random(53)
    valid = dns_response(IP(dst="10.0.0.9"))
    for end in range(len(valid)):
        name_not_found(packet(valid[:end] or b"\0"))
    for _ in range(2000):
        damaged = bytearray(valid)
        for _ in range(rng.randrange(1, 5)):
            damaged[rng.randrange(14, len(damaged))] = rng.randrange(256)
        name_not_found(packet(bytes(damaged)))
