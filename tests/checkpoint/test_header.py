import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal.errors
from shoal.checkpoint.header import TensorEntry, parse_header, read_header
from shoal.errors import HeaderError

WHERE = Path("a.safetensors")


def tensor(dtype="U8", shape=(4,), offsets=(0, 4), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


def parse(header, payload_nbytes=4, where=WHERE):
    blob = header if isinstance(header, bytes) else json.dumps(header).encode()
    return parse_header(blob, 8 + len(blob) + payload_nbytes, where)


def test_offsets_are_absolute_in_the_file(write_shard):
    path = write_shard({"w": tensor(), "v": tensor("F32", (2,), (4, 12)), "__metadata__": {"format": "pt"}}, b"\0" * 12)
    header = read_header(path)
    start = header.payload_start
    assert header.tensors == {
        "w": TensorEntry("w", "U8", (4,), start, start + 4, path),
        "v": TensorEntry("v", "F32", (2,), start + 4, start + 12, path),
    }
    assert (header.path, header.file_nbytes, header.metadata) == (path, path.stat().st_size, {"format": "pt"})
    assert header.tensors["v"].nbytes == 8


def test_scalars_zero_sizes_gaps_and_trailing_bytes_are_allowed():
    header = {
        "scalar": tensor("F32", (), (0, 4)),
        "empty": tensor("F32", (0, 7), (2, 2)),
        "late": tensor("U8", (1,), (9, 10)),
    }
    assert {name: entry.nbytes for name, entry in parse(header, 99).tensors.items()} == {
        "scalar": 4,
        "empty": 0,
        "late": 1,
    }
    assert parse({}).tensors == {}


def test_dtypes_of_less_than_a_byte_are_sized():
    assert parse({"w": tensor("F4", (2, 4))}).tensors["w"].nbytes == 4
    with pytest.raises(HeaderError, match=re.escape("`w` is F4 [3] in the header of")):
        parse({"w": tensor("F4", (3,), (0, 2))})


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ([1], "`w` is [1]"),
        ("text", '`w` is "text"'),
        (None, "`w` is null"),
        ({"dtype": "U8", "shape": [4]}, "`w` has no `data_offsets`"),
        ({"dtype": "U8", "data_offsets": [0, 4]}, "`w` has no `shape`"),
        ({"shape": [4], "data_offsets": [0, 4]}, "`w` has no `dtype`"),
        (tensor("F7"), '`w` has dtype "F7"'),
        (tensor(7), "`w` has dtype 7"),
        (tensor(["U8"]), '`w` has dtype ["U8"]'),
        (tensor(shape=[True, 4]), "`w` has shape [true, 4]"),
        (tensor(shape=[4.0]), "`w` has shape [4.0]"),
        (tensor(shape=[-4]), "`w` has shape [-4]"),
        (tensor(shape=["4"]), '`w` has shape ["4"]'),
        (tensor(shape=[None]), "`w` has shape [null]"),
        (tensor() | {"shape": 4}, "`w` has shape 4"),
        (tensor(shape=[2**63]), "`w` has shape [9223372036854775808]"),
        (tensor(shape=[2**62, 2]), "`w` has shape [4611686018427387904, 2]"),
        (tensor(shape=[2**32, 2**32, 0], offsets=[0, 0]), "`w` has shape [4294967296, 4294967296, 0]"),
        (tensor(shape=[2**63 - 1] * 8), "`w` has shape"),
        (tensor(shape=[1] * 9, offsets=[0, 1]), "`w` has 9 dimensions"),
        (tensor(offsets=[0]), "`w` has data_offsets [0]"),
        (tensor(offsets=[0, 4, 8]), "`w` has data_offsets [0, 4, 8]"),
        (tensor(offsets=[4, 0]), "`w` has data_offsets [4, 0]"),
        (tensor(offsets=[-4, 0]), "`w` has data_offsets [-4, 0]"),
        (tensor(offsets=[False, 4]), "`w` has data_offsets [false, 4]"),
        (tensor(offsets=[0, 4.0]), "`w` has data_offsets [0, 4.0]"),
        (tensor(offsets=[0, 2**64]), "`w` has data_offsets [0, 18446744073709551616]"),
        (tensor(shape=[5]), "`w` is U8 [5] in 4 bytes"),
        (tensor("F32"), "`w` is F32 [4] in 4 bytes"),
        (tensor(shape=[0]), "`w` is U8 [0] in 4 bytes"),
    ],
)
def test_a_lie_about_a_tensor_is_named(entry, found):
    with pytest.raises(HeaderError, match=re.escape(found)) as caught:
        parse({"w": entry})
    assert "in the header of `a.safetensors`, expected " in caught.value.message


def test_offsets_beyond_the_file_say_how_many_bytes_are_missing(write_shard):
    path = write_shard({"w": tensor(), "last": tensor(shape=[3000], offsets=[4, 3004])}, b"\0" * 1000)
    with pytest.raises(HeaderError, match=r"truncated, 2,004 bytes are missing: .*`last` ends"):
        read_header(path)


def test_overlapping_tensors_are_both_named():
    header = {"b": tensor(offsets=[3, 7]), "a": tensor()}
    with pytest.raises(HeaderError, match=r"`b` starts at byte .*, inside `a` .* expected byte .* or later"):
        parse(header, 8)
    with pytest.raises(HeaderError, match=r"inside"):
        parse({"a": tensor(), "same": tensor()})
    assert len(parse({"a": tensor(), "next": tensor(offsets=[4, 8])}, 8).tensors) == 2


@pytest.mark.parametrize("metadata", [[], "text", {"a": 1}, {"a": None}, {"a": {"b": "c"}}])
def test_metadata_must_be_strings(metadata):
    with pytest.raises(HeaderError, match=r"`__metadata__` is .* expected an object of strings"):
        parse({"__metadata__": metadata})


@pytest.mark.parametrize("nbytes", [0, 1, 7])
def test_a_file_too_short_for_a_length_is_named(tmp_path, nbytes):
    path = tmp_path / "short.safetensors"
    path.write_bytes(b"\1" * nbytes)
    with pytest.raises(HeaderError, match=rf"`.*short.safetensors` is {nbytes} bytes long, expected .* at least 8"):
        read_header(path)


@pytest.mark.parametrize(
    ("header_nbytes", "found"),
    [
        (0, "a header of 0 bytes"),
        (3, "truncated in its header: found 2 of its bytes, expected 3"),
        (33_554_432, "found 2 of its bytes, expected 33,554,432"),
        (33_554_433, "claims 33,554,433 bytes of JSON, expected at most 33,554,432"),
        (2**64 - 1, "claims 18,446,744,073,709,551,615 bytes of JSON"),
    ],
)
def test_a_false_header_length_is_named(write_shard, header_nbytes, found):
    with pytest.raises(HeaderError, match=found):
        read_header(write_shard({}, header_nbytes=header_nbytes))


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(HeaderError, match=r"`.*absent.safetensors` cannot be opened: No such file"):
        read_header(tmp_path / "absent.safetensors")
    with pytest.raises(HeaderError, match=r"is not a regular file"):
        read_header(tmp_path)
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(HeaderError, match=r"is not a regular file"):
        read_header(tmp_path / "pipe.safetensors")


def test_a_terminal_is_not_obeyed_by_a_tensor_name():
    with pytest.raises(HeaderError) as caught:
        parse({"\x1b[2J\ud800": tensor("F7")})
    assert caught.value.message.isprintable()
    assert r"`\x1b[2J\ud800`" in caught.value.message


VALID = json.dumps(
    {
        "__metadata__": {"format": "pt"},
        "a.weight": tensor("F8_E4M3", (2, 8), (0, 16)),
        "a.scale": tensor("F8_E8M0", (1, 1), (16, 17)),
        "b": tensor("BF16", (), (17, 19)),
    }
).encode()
FRAGMENTS = [
    b"{",
    b"[",
    b"]",
    b"}",
    b'"',
    b"\\",
    b"-",
    b"0",
    b"1e999",
    b"NaN",
    b"true",
    b"9" * 5000,
    b"\xff",
    b"\\ud800",
]


@given(st.data())
def test_a_mutated_header_is_read_or_refused(data):
    blob = bytearray(VALID)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(blob)))
        blob[at : at + data.draw(st.integers(0, 8))] = data.draw(st.sampled_from(FRAGMENTS) | st.binary(max_size=4))
    file_nbytes = 8 + len(blob) + data.draw(st.integers(0, 30))
    try:
        header = parse_header(bytes(blob), file_nbytes, WHERE)
    except HeaderError as problem:
        assert problem.message.isprintable()
        return
    for entry in header.tensors.values():
        assert header.payload_start <= entry.start <= entry.end <= file_nbytes


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(tmp_path_factory, blob):
    path = tmp_path_factory.getbasetemp() / "fuzz.safetensors"
    path.write_bytes(blob)
    try:
        read_header(path)
    except HeaderError as problem:
        assert "fuzz.safetensors" in problem.message


def test_headers_and_indexes_need_no_package():
    source = Path(shoal.errors.__file__).parent.parent
    code = (
        f"import sys; sys.path.insert(0, {str(source)!r});"
        "import shoal.checkpoint.header, shoal.checkpoint.index, shoal.checkpoint.directory;"
        "print(sorted({'torch', 'numpy', 'safetensors'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
