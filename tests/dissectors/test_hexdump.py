from __future__ import annotations

import base64
import re
from collections.abc import Callable
from itertools import zip_longest

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dissectors.hexdump import HexError, hexdump, unhex, unhex_all

METADATA_REQUEST = bytes.fromhex("00000012000300000000000100047465737400000000")
# Its text could be mistaken for bytes: "beef 0010abcd||>" and, at the end, "ab cd".
FRAME = b"\x00\x00\x00\x12\x00\x03\x00\x00beef 0010abcd||>" + bytes(40) + b"ab cd"

XXD = """\
00000000: 0000 0012 0003 0000 6265 6566 2030 3031  ........beef 001
00000010: 3061 6263 647c 7c3e 0000 0000 0000 0000  0abcd||>........
00000020: 0000 0000 0000 0000 0000 0000 0000 0000  ................
00000030: 0000 0000 0000 0000 0000 0000 0000 0000  ................
00000040: 6162 2063 64                             ab cd
"""
XXD_G1_C8 = """\
00000000: 00 00 00 12 00 03 00 00  ........
00000008: 62 65 65 66 20 30 30 31  beef 001
00000010: 30 61 62 63 64 7c 7c 3e  0abcd||>
00000018: 00 00 00 00 00 00 00 00  ........
00000020: 00 00 00 00 00 00 00 00  ........
00000028: 00 00 00 00 00 00 00 00  ........
00000030: 00 00 00 00 00 00 00 00  ........
00000038: 00 00 00 00 00 00 00 00  ........
00000040: 61 62 20 63 64           ab cd
"""
XXD_P = """\
0000001200030000626565662030303130616263647c7c3e000000000000
000000000000000000000000000000000000000000000000000000000000
000000006162206364
"""
XXD_I = """\
unsigned char p_bin[] = {
  0x00, 0x00, 0x00, 0x12, 0x00, 0x03, 0x00, 0x00, 0x62, 0x65, 0x65, 0x66,
  0x20, 0x30, 0x30, 0x31, 0x30, 0x61, 0x62, 0x63, 0x64, 0x7c, 0x7c, 0x3e,
  0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
  0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
  0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
  0x00, 0x00, 0x00, 0x00, 0x61, 0x62, 0x20, 0x63, 0x64
};
unsigned int p_bin_len = 69;
"""
HEXDUMP_C = """\
00000000  00 00 00 12 00 03 00 00  62 65 65 66 20 30 30 31  |........beef 001|
00000010  30 61 62 63 64 7c 7c 3e  00 00 00 00 00 00 00 00  |0abcd||>........|
00000020  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
*
00000040  61 62 20 63 64                                    |ab cd|
00000045
"""
OD_HEXADECIMAL_WITH_TEXT = """\
000000 00 00 00 12 00 03 00 00 62 65 65 66 20 30 30 31  >........beef 001<
000010 30 61 62 63 64 7c 7c 3e 00 00 00 00 00 00 00 00  >0abcd||>........<
000020 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  >................<
*
000040 61 62 20 63 64                                   >ab cd<
000045
"""
OD_OCTAL = """\
0000000 00 00 00 12 00 03 00 00 62 65 65 66 20 30 30 31
0000020 30 61 62 63 64 7c 7c 3e 00 00 00 00 00 00 00 00
0000040 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
*
0000100 61 62 20 63 64
0000105
"""
OD_DECIMAL = """\
0000000 00 00 00 12 00 03 00 00 62 65 65 66 20 30 30 31
0000016 30 61 62 63 64 7c 7c 3e 00 00 00 00 00 00 00 00
0000032 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
*
0000064 61 62 20 63 64
0000069
"""
SCAPY = """\
0000  00 00 00 12 00 03 00 00 62 65 65 66 20 30 30 31  ........beef 001
0010  30 61 62 63 64 7C 7C 3E 00 00 00 00 00 00 00 00  0abcd||>........
0020  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
0030  00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
0040  61 62 20 63 64                                   ab cd
"""
UDP_HEADERS = bytes.fromhex("450000610001000040110000 7f0000017f000001 9c402384004d0000")
TCPDUMP_X = """\
22:13:20.000000 IP 127.0.0.1.40000 > 127.0.0.1.9092: UDP, length 69
	0x0000:  4500 0061 0001 0000 4011 0000 7f00 0001  E..a....@.......
	0x0010:  7f00 0001 9c40 2384 004d 0000 0000 0012  .....@#..M......
	0x0020:  0003 0000 6265 6566 2030 3031 3061 6263  ....beef.0010abc
	0x0030:  647c 7c3e 0000 0000 0000 0000 0000 0000  d||>............
	0x0040:  0000 0000 0000 0000 0000 0000 0000 0000  ................
	0x0050:  0000 0000 0000 0000 0000 0000 6162 2063  ............ab.c
	0x0060:  64                                       d
"""

# Data that looks like hex, gaps, the ends of other text columns or comments in a text column.
ANY_DATA = st.one_of(
    st.binary(min_size=1, max_size=80),
    st.text(alphabet="0123456789abcdefABCDEF ", min_size=1, max_size=80).map(str.encode),
    st.text(alphabet="0a |<>*/#'\"\\%:,{}\x00\n", min_size=1, max_size=80).map(str.encode),
)


def text_column(data: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


def rows(data: bytes, width: int = 16) -> list[tuple[int, bytes]]:
    return [(offset, data[offset : offset + width]) for offset in range(0, len(data), width)]


def as_xxd(data: bytes) -> str:
    return "\n".join(f"{offset:08x}: {row.hex(' ', -2):<39}  {text_column(row)}" for offset, row in rows(data))


def as_od(data: bytes) -> str:
    return "\n".join(f"{offset:07o} {row.hex(' ')}" for offset, row in rows(data)) + f"\n{len(data):07o}\n"


def as_od_with_text(data: bytes) -> str:
    return "\n".join(f"{offset:06x} {row.hex(' '):<47}  >{text_column(row)}<" for offset, row in rows(data))


def as_tcpdump(data: bytes) -> str:
    return "\n".join(f"\t0x{offset:04x}:  {row.hex(' ', -2):<39}  {text_column(row)}" for offset, row in rows(data))


def as_wireshark_dump(data: bytes) -> str:  # ui/qt/utils/data_printer.cpp, hexTextDump
    return "\n".join(f"{offset:04x}   {row.hex(' '):<47}   {text_column(row)}" for offset, row in rows(data))


def as_wireshark_dump_without_text(data: bytes) -> str:
    return "\n".join(f"{offset:04x}   {row.hex(' ')}" for offset, row in rows(data))


def as_followed_stream(data: bytes) -> str:
    lines = []
    for offset, row in rows(data):
        digits = f"{row[:8].hex(' ')}  {row[8:].hex(' ')}"
        lines.append(f"    {offset:08X}  {digits:<48}   {text_column(row[:8])} {text_column(row[8:])}")
    return "\n".join(lines)


def as_wireshark_exported_array(data: bytes) -> str:  # epan/print.c, write_carrays_hex_data
    lines = [f"{', '.join(f'0x{byte:02x}' for byte in row)}, /* {text_column(row)} */" for _, row in rows(data, 8)]
    return "/* Frame (1 bytes) */\nstatic const unsigned char pkt1[1] = {\n" + "\n".join(lines) + "\n};\n\n"


def as_go_literal(data: bytes) -> str:  # data_printer.cpp, DP_GoLiteral; Go's %#v
    return "[]byte{" + ", ".join(f"0x{byte:x}" for byte in data) + "}"


def as_wireshark_c_string(data: bytes) -> str:  # data_printer.cpp, DP_CString
    escapes = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    characters = {byte: chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}" for byte in data}
    return '"' + "".join(escapes.get(byte, characters[byte]) for byte in data) + '"'


def as_words(data: bytes) -> str:
    return " ".join("0x" + row.hex() for _, row in rows(data, 2))


def as_escapes(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)


@pytest.mark.parametrize(
    "dump",
    [XXD, XXD_G1_C8, XXD_P, XXD_I, HEXDUMP_C, OD_HEXADECIMAL_WITH_TEXT, OD_OCTAL, OD_DECIMAL, SCAPY],
    ids=[
        "xxd",
        "xxd -g1 -c8",
        "xxd -p",
        "xxd -i",
        "hexdump -C",
        "od -A x -t x1z",
        "od -t x1",
        "od -A d -t x1",
        "scapy",
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "  \n"])
def test_output_of_common_tools_is_read(dump: str, line_end: str) -> None:
    assert unhex(dump.replace("\n", line_end)) == FRAME


def test_tcpdump_output_is_read_with_and_without_text() -> None:
    assert unhex(TCPDUMP_X) == UDP_HEADERS + FRAME
    assert unhex(re.sub(r"  \S+$", "", TCPDUMP_X, flags=re.M)) == UDP_HEADERS + FRAME


@pytest.mark.parametrize(
    "format_bytes",
    [
        bytes.hex,
        repr,
        as_xxd,
        as_od,
        as_od_with_text,
        as_tcpdump,
        as_wireshark_dump,
        as_wireshark_dump_without_text,
        as_followed_stream,
        as_wireshark_exported_array,
        as_go_literal,
        as_words,
        as_escapes,
    ],
)
@given(data=ANY_DATA)
@example(data=b"ab cd")
@example(data=b"0010 beef 0010 be")
@example(data=bytes(48))
@example(data=b"*/ 0x00, // # */")
def test_every_format_is_read_back(format_bytes: Callable[[bytes], str], data: bytes) -> None:
    assert unhex(format_bytes(data)) == data


@given(data=ANY_DATA)
def test_c_string_with_an_unprintable_first_byte_is_read_back(data: bytes) -> None:
    assert unhex(as_wireshark_c_string(b"\x00" + data)) == b"\x00" + data


@given(data=st.binary(max_size=200), start=st.integers(0, 2**31), width=st.integers(1, 40))
def test_own_dump_is_read_back(data: bytes, start: int, width: int) -> None:
    assert unhex("\n".join(hexdump(data, start, width))) == data


def test_dump_looks_like_the_output_of_hexdump() -> None:
    assert "\n".join(hexdump(FRAME)) == re.sub(
        r"^(00000020)(.*)\n\*", r"\1\2\n00000030\2", HEXDUMP_C, flags=re.M
    ).removesuffix("\n00000045\n")


@pytest.mark.parametrize(
    "text",
    [
        "00 00 00 12 00 03 00 00 00 00 00 01 00 04 74 65 73 74 00 00 00 00",
        "0000 0012 0003 0000 0000 0001 0004 7465 7374 0000 0000",
        "00000012 0003 0000\n00000001\n0004 74657374\n00000000",
        "00000012 00 03 00 00 00 00 00 01 00 04 74 65 73 74 00 00 00 00",
        "00:00:00:12:00:03:00:00:00:00:00:01:00:04:74:65:73:74:00:00:00:00",
        "00-00-00-12-00-03-00-00-00-00-00-01-00-04-74-65-73-74-00-00-00-00",
        "0x00000012, 0X0003, 0x0000, 0x00000001, 0x0004, 0x74657374, 0x0, 0x0, 0x0, 0x0",
        "00\xa000\xa00012 0003 000\n000000001 0004 74657374 00000000",
        "00000012      # length\n0003 0000 // key, version\n\n00000001 /* id\n 7 */ 0004 74657374\n# topics\n00000000",
        r"\x00\x00\x00\x12\x00\x03\x00\x00\x00\x00\x00\x01\x00\x04test\x00\x00\x00\x00",
        "\\x00\\x00\\x00\\x12 \\x00\\x03 # key\n\\x00\\x00\n  \\x00\\x00\\x00\\x01 // id\n"
        "\\x00\\x04test\\x00\\x00\\x00\\x00\n",
        r"printf '\x00\x00\x00\x12\x00\x03\x00\x00\x00\x00\x00\x01\x00\x04test\x00\x00\x00\x00' | nc localhost 9092",
        r"$ printf '\0\0\0\022\0\003\0\0\0\0\0\001\0\004test\0\0\0\0' | nc -w1 'localhost' 9092",
        'sock.send(b"\\x00\\x00\\x00\\x12\\x00\\x03\\x00\\x00"  # header\n'
        '    b"\\x00\\x00\\x00\\x01" + b\'\\x00\\x04test\' \\\n  "\\x00\\x00\\\n\\x00\\x00")',
    ],
)
def test_hand_written_hex_is_read(text: str) -> None:
    assert unhex(text) == METADATA_REQUEST


BASE64 = "AAAAEgADAAAAAAABAAR0ZXN0AAAAAA=="


@pytest.mark.parametrize(
    "text",
    [
        "[0, 0, 0, 18, 0, 3, 0, 0, 0, 0, 0, 1, 0, 4, 116, 101, 115, 116, 0, 0, 0, 0]",  # Java, JSON, Python, Rust
        "[0 0 0 18 0 3 0 0 0 0 0 1 0 4 116 101 115 116 0 0 0 0]",  # Go, %v
        "[00 00 00 12 00 03 00 00 00 00 00 01 00 04 74 65 73 74 00 00 00 00]",  # Go, [% x]
        "<<0,0,0,18,0,3,0,0,0,0,0,1,0,4,116,101,115,116,0,0,0,0>>",  # Erlang
        "<Buffer 00 00 00 12 00 03 00 00 00 00 00 01 00 04 74 65 73 74 00 00 00 00>",  # Node
        '{"type":"Buffer","data":[0,0,0,18,0,3,0,0,0,0,0,1,0,4,116,101,115,116,0,0,0,0]}',
        "Uint8Array(22) [\n   0, 0, 0, 18, 0, 3, 0, 0, 0, 0, 0,\n   1, 0, 4, 116, 101, 115, 116, 0, 0, 0, 0\n]",
        "byte[] b = {0, 0, 0, 0x12, 0, 3, 0, 0, 0, 0, 0, 1, 0, 4, (byte) 0x74, (byte)101, 115, 116, 0, 0, 0, 0};",
        "byteArrayOf(0, 0, 0, 0x12, 0, 3, 0, 0, 0, 0, 0, 1, 0, 4, 0x74, 101, 115, 116, 0, 0, 0, 0)",  # Kotlin
        "let frame = vec![0u8, 0, 0, 0x12_u8, 0, 3, 0, 0, 0, 0, 0, 1, 0, 4, 116, 101, 115, 116, 0, 0, 0, 0];",
        "char frame[22] = {0, 0, 0, 18, /* id */ 0, 3, 0, 0, 0, 0, 0, 1, 0, 4, 116, 101, 115, 116, 0, 0, 0, 0};",
        'bytes.fromhex("00000012000300000000000100047465737400000000")',
        "Buffer.from('00000012000300000000000100047465737400000000', 'hex')",
        BASE64,
        BASE64.rstrip("="),
        BASE64[:20] + "\n" + BASE64[20:] + "\n",
        f'base64.b64decode("{BASE64}")',
        f"Buffer.from('{BASE64}', 'base64')",
        f"{{'frame': '{BASE64}'}}",
    ],
)
def test_array_literals_and_base64_are_read(text: str) -> None:
    assert unhex(text) == METADATA_REQUEST


@given(data=st.binary(min_size=2))
def test_signed_bytes_are_read_back(data: bytes) -> None:
    assert unhex(str([byte - 256 * (byte > 127) for byte in data])) == data


@given(data=st.binary(min_size=5, max_size=300))
def test_base64_of_a_frame_is_read_back(data: bytes) -> None:
    frame = len(data).to_bytes(4, "big") + data
    assert unhex(base64.b64encode(frame).decode()) == frame
    assert unhex(base64.encodebytes(frame).decode()) == frame
    assert unhex(base64.urlsafe_b64encode(frame).decode()) == frame


def test_hex_with_a_typo_is_not_base64() -> None:
    with pytest.raises(HexError, match="'g' is not a hex digit"):
        unhex("000000120003000g")


PACKETS = st.binary(min_size=1, max_size=40)


def test_several_dumps_are_separate_pieces() -> None:
    assert unhex_all(SCAPY + SCAPY) == [FRAME, FRAME]
    assert unhex_all(HEXDUMP_C + "\n$ hexdump -C other\n" + HEXDUMP_C) == [FRAME, FRAME]
    assert unhex_all(TCPDUMP_X + TCPDUMP_X) == [UDP_HEADERS + FRAME] * 2
    assert unhex_all("one [0, 1]\ntwo [2, 3]") == [b"\0\1", b"\2\3"]


@given(
    client=st.lists(st.binary(min_size=1, max_size=40), min_size=1), server=st.lists(st.binary(min_size=1), min_size=1)
)
def test_directions_of_a_followed_stream_are_two_pieces(client: list[bytes], server: list[bytes]) -> None:
    lines: list[str] = []
    sizes = {"": 0, "    ": 0}
    for client_data, server_data in zip_longest(client, server, fillvalue=b""):
        for indent, data in (("", client_data), ("    ", server_data)):
            for line in as_followed_stream(data).splitlines():
                offset, columns = line[4:12], line[12:]
                lines.append(f"{indent}{int(offset, 16) + sizes[indent]:08X}{columns}")
            sizes[indent] += len(data)
    assert unhex_all("\n".join(lines)) == [b"".join(client), b"".join(server)]


def test_named_escapes_are_read() -> None:
    assert unhex(r"'\a\b\e\f\n\r\t\v\\\'\"'") == b"\a\b\x1b\f\n\r\t\v\\'\""


def test_escapes_in_a_comment_are_ignored() -> None:
    assert unhex("00 # not \\x01\n02 // nor b'3'") == b"\x00\x02"
    assert unhex(r"printf '#\x00'") == b"#\x00"


def test_text_between_escapes_is_utf8() -> None:
    assert unhex("\\x00ü") == b"\x00\xc3\xbc"


@pytest.mark.parametrize("text", ["", " \n\t\n", "# nothing but this"])
def test_empty_text_gives_no_bytes(text: str) -> None:
    assert unhex(text) == b""


def test_prompt_before_a_dump_is_skipped() -> None:
    assert unhex("$ hexdump -C frame\n" + HEXDUMP_C) == FRAME


def test_lines_that_busybox_leaves_out_are_restored() -> None:
    dump = "00000000  20 20 20 20 20 20 20 20  20 20 20 20 20 20 20 20  |                |\n*\n"
    assert unhex(dump + "00000010  20                                                | |\n00000011\n") == b" " * 17


def test_dump_that_starts_in_the_middle_is_read() -> None:
    assert unhex(HEXDUMP_C.split("\n", 1)[1]) == FRAME[16:]
    assert unhex("\n".join(as_od(bytes(64)).split("\n")[1:])) == bytes(48)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("00 0g", "line 1, column 5: 'g' is not a hex digit"),
        ("00 00\n00 0", "line 2, column 4: odd number of hex digits: the last one is '0'"),
        ("00000 12", "line 1, column 5: odd number of hex digits: the last one is '0'"),
        ("0x00 0x", "line 1, column 8: hex digits are missing after 0x"),
        ("0x00 *", "line 1, column 6: '*' needs offsets to show how many lines it replaces: dump with -v"),
        ("00 /* length", "line 1, column 4: this comment is not closed: add */"),
        ("GET / HTTP/1.1", "line 1, column 1: 'G' is not a hex digit"),
        ("{0, 256}", "line 1, column 5: 256 is not a byte: use -128 to 255"),
        ("[0, x]", "line 1, column 5: 'x' is not a byte: use 0x00 to 0xff, or -128 to 255"),
        (
            "<Buffer 00 00 ... 2 more bytes>",
            "line 1, column 15: the program that printed this left bytes out: print them all, as hex",
        ),
        ("{0x00};\n{0x01};", "line 1, column 1: this is 2 dumps or arrays: pass one here"),
        (
            r"b'\x00",
            "line 1, column 2: this string is not closed on its line: add the quote, or write a line break as \\n",
        ),
        (r"\x00\q", r"line 1, column 5: '\q' is not a byte escape: write it as \x and two hex digits"),
        (r"'\777'", r"line 1, column 2: '\777' is not a byte escape: write it as \x and two hex digits"),
        ("a = '\\x00'\nb = '\\x01'", "line 2, column 6: another string follows: pass one frame at a time"),
        (r"printf '\x00%b'", r"line 1, column 13: printf interprets '%': write it as \x25"),
        (
            XXD.replace("00000020", "00000030"),
            "line 3, column 1: expected offset 00000020, got 00000030: lines or bytes are missing or duplicated",
        ),
        (
            re.sub(r"0000040 .*\n\*\n", "", OD_OCTAL),
            "line 3, column 1: expected offset 0000040, got 0000100: lines or bytes are missing or duplicated",
        ),
        (
            XXD.replace("00000010:", "prompt\n00000010:"),
            "line 2, column 1: this line of the dump has no offset: remove it or restore it",
        ),
        (SCAPY + SCAPY, "line 1, column 1: this is 2 dumps or arrays: pass one here"),
        (XXD.replace("6566", "656g"), "line 1, column 39: 'g' is not a hex digit"),
        (XXD.replace("6566", "656"), "line 1, column 36: '656' has an odd number of hex digits"),
        (
            XXD.replace("0000000:", "O000000:"),
            "line 1, column 1: this is not a dump line, but the next one has offset 00000010",
        ),
        (
            HEXDUMP_C.split("*")[0] + "*\n",
            "line 4, column 1: the line after '*' is missing: its offset shows how many bytes '*' replaces",
        ),
        (
            HEXDUMP_C.split("*")[0] + "*\n40000000\n",
            "line 5, column 1: '*' replaces 1073741776 bytes, more than a frame can have",
        ),
        (
            "0000000 0000 1200 0300\n0000006",
            "line 1, column 9: these are 16-bit words in machine byte order: dump with hexdump -C, od -t x1 or xxd",
        ),
        (
            "0000  00 00 00 12  00 03",
            "line 1, column 20: '00' after the gap may be bytes or text: close the gap or remove the text",
        ),
        ("00000000: 00 12 zz", "line 1, column 17: 'z' is not a hex digit"),
        ("00000000:\u2003zz", "line 1, column 11: 'z' is not a hex digit"),
    ],
)
def test_error_shows_its_position_and_cause(text: str, message: str) -> None:
    with pytest.raises(HexError) as raised:
        unhex(text)
    assert str(raised.value) == message
    assert message.startswith(f"line {raised.value.line}, column {raised.value.column}: ")


@given(text=st.text(alphabet="0123456789abcdefx:|<>*/#\\'\"{} \t\n\r\u2003\ud800%,-") | st.text())
def test_any_text_gives_bytes_or_a_located_error(text: str) -> None:
    try:
        unhex(text)
    except HexError as raised:
        error = raised
    else:
        return
    lines = text.replace("\r\n", "\n").split("\n")
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1


@given(data=st.binary(min_size=49, max_size=80), missing_line=st.integers(1, 2))
def test_dump_with_a_missing_line_is_rejected(data: bytes, missing_line: int) -> None:
    lines = list(hexdump(data))
    del lines[missing_line]
    with pytest.raises(HexError, match=f"^line {missing_line + 1}, column 1: expected offset 000000.0, got "):
        unhex("\n".join(lines))
