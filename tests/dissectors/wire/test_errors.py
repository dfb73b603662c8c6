import pytest

from dissectors.hexdump import unhex
from dissectors.wire.decode import decode
from dissectors.wire.encode import encode
from dissectors.wire.errors import DecodeError, EncodeError
from dissectors.wire.layout import Field, Layout
from dissectors.wire.paths import render

TOPIC = Layout("Topic", (Field("error_code", "int16"), Field("name", "string", length="uvarint")))


def test_decode_error_names_the_field_and_the_byte() -> None:
    error = decode(TOPIC, unhex("00 03  09 61 62 63  00")).error
    assert error is not None
    assert str(error) == "name at byte 2 (0x0002): length 8 does not fit: 4 bytes left"
    assert error.message == "length 8 does not fit: 4 bytes left"
    assert (error.path, error.offset) == (("name",), 2)


def test_decode_error_without_a_field_names_the_frame() -> None:
    assert str(DecodeError("no bytes", offset=16)) == "frame at byte 16 (0x0010): no bytes"


def test_encode_error_names_the_field() -> None:
    with pytest.raises(EncodeError, match=r"^error_code: 70000 is not int16: ") as raised:
        encode(TOPIC, {"error_code": 70_000})
    assert raised.value.path == ("error_code",)


def test_encode_error_without_a_field_names_the_message() -> None:
    assert str(EncodeError("not a mapping")) == "message: not a mapping"


def test_indexes_are_in_brackets_in_a_path() -> None:
    assert render(("topics", "2", "partitions", "0", "leader_epoch")) == "topics[2].partitions[0].leader_epoch"
    assert render(("0", "name")) == "[0].name"
    assert render(()) == ""
