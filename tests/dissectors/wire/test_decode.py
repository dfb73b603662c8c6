from dissectors.hexdump import unhex
from dissectors.wire.compiled import ERROR_CODE
from dissectors.wire.decode import decode
from dissectors.wire.layout import Field, Layout

TOPIC = Layout(
    "Topic",
    (Field("error_code", "int16"), Field("name", "string", nullable=True, length="uvarint"), Field("internal", "bool")),
)


def test_valid_bytes_are_read_from_the_start_offset() -> None:
    decoded = decode(TOPIC, unhex("00 00 00 07  00 03 03 68 69 01  ff"), 4)
    assert decoded == ({"error_code": 3, "name": "hi", "internal": True}, 10, None, (), ERROR_CODE)


def test_fields_before_the_first_invalid_byte_are_kept() -> None:
    values, end, error, decode_warnings, _ = decode(TOPIC, unhex("00 03 09 68 69 01"))
    assert values == {"error_code": 3}
    assert end == 2
    assert error is not None
    assert (error.offset, error.path) == (2, ("name",))
    assert decode_warnings == ()


def test_irregular_bytes_are_read_with_warnings() -> None:
    values, end, error, decode_warnings, _ = decode(TOPIC, unhex("00 03 03 68 ff 07"))
    assert values == {"error_code": 3, "name": "h\udcff", "internal": True}
    assert (end, error) == (6, None)
    assert [(warning.kind, warning.start, warning.end, warning.path) for warning in decode_warnings] == [
        ("utf8", 2, 5, ("name",)),
        ("bool", 5, 6, ("internal",)),
    ]
