import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.hexdump import unhex
from dissectors.wire.primitives import (
    Irregularity,
    escape_surrogates,
    read_uvarint,
    uuid_bytes,
    uuid_text,
    write_uvarint,
)


@given(st.integers(128, (1 << 32) - 1))
def test_long_varint_is_read_as_it_was_written(value: int) -> None:
    written = write_uvarint(value)
    assert read_uvarint(written + b"rest", 1, written[0]) == (value, len(written))


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "00"), (127, "7f"), (128, "80 01"), (300, "ac 02"), ((1 << 32) - 1, "ff ff ff ff 0f")],
)
def test_varint_is_written_with_the_fewest_bytes(value: int, written: str) -> None:
    assert write_uvarint(value) == unhex(written)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("81 00", id="longer than it need be"),
        pytest.param("ff ff ff ff 1f", id="33 bits"),
        pytest.param("81 80 80 80 80 01", id="six bytes"),
    ],
)
def test_irregular_varint_is_rejected(written: str) -> None:
    data = unhex(written)
    with pytest.raises(Irregularity):
        read_uvarint(data, 1, data[0])


def test_truncated_varint_runs_out_of_bytes() -> None:
    with pytest.raises(IndexError):
        read_uvarint(b"\x80", 1, 0x80)


def test_uuid_is_printed_as_in_kafka() -> None:
    assert uuid_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(unhex("fb ff fe") + bytes(13)) == "-__-AAAAAAAAAAAAAAAAAA"


@given(st.binary(min_size=16, max_size=16))
def test_printed_uuid_is_converted_back_to_its_bytes(raw: bytes) -> None:
    assert uuid_bytes(uuid_text(raw)) == raw


@pytest.mark.parametrize("text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAA==", "AAAAAAAAAAAAAAAAAAAAA!", "ü" * 22])
def test_invalid_uuid_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # base64's own message, or ours
        uuid_bytes(text)


def test_invalid_utf8_is_printed_as_escapes() -> None:
    assert escape_surrogates(b"caf\xc3\xa9 \xff".decode("utf-8", "surrogateescape")) == r"café \xff"
