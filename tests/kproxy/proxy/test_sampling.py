"""The choice of connections for a sample."""

import pytest

from kproxy.proxy.sampling import is_chosen, parse_sample


@pytest.mark.parametrize(
    ("text", "share"), [("1", 1.0), ("0.1", 0.1), ("10%", 0.1), ("100%", 1.0), ("0.5%", 0.005), (" 2.5% ", 0.025)]
)
def test_reads_a_share_or_a_percentage(text: str, share: float) -> None:
    assert parse_sample(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "0", "0%", "-1", "1.01", "101%", "nan", "inf", "10%%", "%", "10 percent"])
def test_rejects_an_invalid_share(text: str) -> None:
    with pytest.raises(ValueError, match="use a number above 0 up to 1, or a percentage like 10%"):
        parse_sample(text)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("clients", [["10.0.0.1:40000"], ["unix:"], [f"10.0.0.{host}:40000" for host in range(50)]])
def test_share_is_accurate_for_similar_clients(share: float, clients: list[str]) -> None:
    numbers = range(1, 20_001)
    chosen_count = sum(is_chosen(clients[number % len(clients)], number, share) for number in numbers)
    expected = share * len(numbers)
    assert abs(chosen_count - expected) < 5 * (expected * (1 - share)) ** 0.5


def test_share_1_chooses_every_connection() -> None:
    assert all(is_chosen("a:1", number, 1.0) for number in range(1000))
