from typing import Any

import pytest

from dissectors.hexdump import unhex
from dissectors.wire.encode import encode
from dissectors.wire.errors import EncodeError
from dissectors.wire.layout import Layout, layout
from tests.dissectors.shapes import PORT, TAGGED, single_field


@pytest.mark.parametrize(
    ("shape", "value", "text"),
    [
        pytest.param(single_field("bool"), True, "01", id="true"),
        pytest.param(single_field("int8"), -1, "ff", id="int8"),
        pytest.param(single_field("int16"), -2, "ff fe", id="int16"),
        pytest.param(single_field("uint16"), 65535, "ff ff", id="uint16"),
        pytest.param(single_field("int32"), 7, "00 00 00 07", id="int32"),
        pytest.param(single_field("uint32"), (1 << 32) - 1, "ff ff ff ff", id="uint32"),
        pytest.param(single_field("int64"), 1 << 32, "00 00 00 01 00 00 00 00", id="int64"),
        pytest.param(single_field("float64"), 1.5, "3f f8 00 00 00 00 00 00", id="float64"),
        pytest.param(single_field("uuid"), "AAAAAAAAAAAAAAAAAAAAAQ", "00" * 15 + "01", id="uuid"),
        pytest.param(single_field("string", length="int16"), "hi", "00 02 68 69", id="string"),
        pytest.param(single_field("string", length="int16"), None, "ff ff", id="null string"),
        pytest.param(single_field("string", length="uvarint"), "", "01", id="empty compact string"),
        pytest.param(single_field("string", length="uvarint"), None, "00", id="null compact string"),
        pytest.param(single_field("string", length="uvarint"), "é\udcff", "04 c3 a9 ff", id="text that is not UTF-8"),
        pytest.param(single_field("bytes", length="int32"), b"\x01", "00 00 00 01 01", id="bytes"),
        pytest.param(single_field("records", length="int32"), memoryview(b"ab"), "00 00 00 02 61 62", id="records"),
        pytest.param(single_field("records", length="uvarint"), memoryview(b""), "01", id="no records"),
        pytest.param(
            single_field("int16", array=True, length="int32"), [1, 2], "00 00 00 02 00 01 00 02", id="numbers"
        ),
        pytest.param(single_field("int16", array=True, length="uvarint"), None, "00", id="null array"),
        pytest.param(
            single_field("string", array=True, length="int32", element_length="int16"),
            ("a",),
            "00 00 00 01 00 01 61",
            id="strings",
        ),
        pytest.param(single_field("struct", struct=PORT), {"port": 7}, "07", id="struct"),
        pytest.param(
            single_field("struct", struct=PORT, array=True, length="uvarint"), [{"port": 7}], "02 07", id="structs"
        ),
        pytest.param(
            single_field("struct", struct=PORT, nullable=True, length="int8"), {"port": 7}, "01 07", id="present"
        ),
        pytest.param(single_field("struct", struct=PORT, nullable=True, length="int8"), None, "ff", id="absent"),
    ],
)
def test_every_shape_is_written(shape: Layout, value: object, text: str) -> None:
    assert encode(shape, {"it": value}) == unhex(text)


def test_missing_values_get_their_defaults() -> None:
    assert encode(single_field("struct", struct=PORT, default={}), {}) == unhex("09")
    assert encode(layout("MetadataRequest", 4), {}) == unhex("00 00 00 00  01")


@pytest.mark.parametrize("length", ["int32", "uvarint"])
def test_records_may_be_given_in_pieces(length: str) -> None:
    shape = single_field("records", length=length)
    [name] = [field.name for field in shape.fields]
    expected = encode(shape, {name: b"abcdef"})
    assert encode(shape, {name: [b"ab", memoryview(b"cd"), b"", b"ef"]}) == expected
    assert encode(shape, {name: []}) == encode(shape, {name: b""})


def test_tags_are_written_in_order_and_only_if_given() -> None:
    assert encode(TAGGED, {}) == unhex("00 00  00")
    assert encode(TAGGED, {"where": None, "epoch": 7, "_tags": [[130, b"z"], [5, b""]]}) == unhex("""
        00 00               # error_code
        04                  # four tags
        01 04 00 00 00 07   # epoch
        02 01 00            # where: null
        05 00
        82 01 01 7a
    """)


@pytest.mark.parametrize(
    ("shape", "value", "message"),
    [
        pytest.param(single_field("int8"), 128, "it: 128 is not int8: ", id="too large"),
        pytest.param(single_field("int32"), 1.5, "it: 1.5 is not int32: ", id="no whole number"),
        pytest.param(single_field("int32"), None, "it: None is not int32: ", id="null number"),
        pytest.param(single_field("bool"), "false", "it: 'false' is not bool: ", id="text that reads like a boolean"),
        pytest.param(single_field("uuid"), "short", "it: 'short' is not uuid: ", id="no uuid"),
        pytest.param(single_field("uuid"), 7, "it: 7 is not uuid: ", id="number as uuid"),
        pytest.param(single_field("string", length="int16"), 7, "it: 7 is not string: ", id="number as string"),
        pytest.param(
            single_field("string", length="int16"), "\ud800", r"it: '\\ud800' is not string: ", id="half a character"
        ),
        pytest.param(
            single_field("string", length="int16"), "x" * 32768, "it: 32768 is over the limit of 32767", id="long"
        ),
        pytest.param(single_field("bytes", length="int32"), [256], r"it: \[256\] is not bytes: ", id="no byte"),
        pytest.param(
            single_field("int8", array=True, length="int32"), 7, "it: 7 is not an array", id="number as array"
        ),
        pytest.param(
            single_field("string", array=True, length="int32", element_length="int16"),
            "ab",
            "it: 'ab' is not an array",
            id="text",
        ),
        pytest.param(
            single_field("int8", array=True, length="int32"), [1, 300], r"it\[1\]: 300 is not int8: ", id="element"
        ),
        pytest.param(single_field("int8", array=True), [1], "it: the layout has no length here", id="no length"),
        pytest.param(
            single_field("struct", struct=PORT), None, "it: Port takes a mapping, not NoneType", id="null struct"
        ),
        pytest.param(
            single_field("struct", struct=PORT, array=True, length="int32"),
            [7],
            r"it\[0\]: Port takes a mapping, not int",
            id="number as struct",
        ),
    ],
)
def test_error_for_a_value_that_does_not_fit_names_its_field(shape: Layout, value: object, message: str) -> None:
    with pytest.raises(EncodeError, match=f"^{message}"):
        encode(shape, {"it": value})


@pytest.mark.parametrize("pair", [[-1, b""], [1 << 32, b""], ["1", b""], [1, "text"], [1], 7])
def test_invalid_tag_is_rejected(pair: Any) -> None:
    with pytest.raises(EncodeError, match=r"^_tags: .* is not a tag and its bytes"):
        encode(TAGGED, {"_tags": [pair]})


def test_error_for_an_invalid_tagged_value_names_its_field() -> None:
    with pytest.raises(EncodeError, match=r"^where\.port: 'x' is not int8"):
        encode(TAGGED, {"where": {"port": "x"}})
