import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.config.json_file import LARGEST_FILE, describe, read_json_object
from shoal.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.json"


def message_of(path: Path, data: bytes | None = None) -> str:
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_json_object(path)
    assert f"`{path}`" in caught.value.message
    return caught.value.message


def test_an_object_is_read(file: Path) -> None:
    file.write_text('{"a": [1, 2.5, null], "ä": {"b": false}}')
    assert read_json_object(file) == {"a": [1, 2.5, None], "ä": {"b": False}}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\xff\xfe{}", "is not UTF-8 at byte 0"),
        (b"[1, 2]", "holds a list of 2, wanted a JSON object"),
        (b'"text"', 'holds "text", wanted a JSON object'),
        (b"null", "holds null, wanted a JSON object"),
        (b'{"a": 1', "is not JSON"),
        (b'{"a": 1} {}', "is not JSON"),
        (b"version https://git-lfs.github.com/spec/v1", "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "is not JSON"),
        (b'{"a": NaN}', "the value NaN is not JSON"),
        (b'{"a": [-Infinity]}', "the value -Infinity is not JSON"),
        (b'{"a": {"b": 1, "b": 2}}', 'key "b" is stated twice (1 and 2), wanted once'),
        (b'{"a\\u0007": 1, "a\\u0007": 1}', 'key "a\\u0007" is stated twice'),
        (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "is nested too deeply"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "is nested too deeply"),
        (b'{"a": "' + b"x" * LARGEST_FILE + b'"}', "is larger than 1,048,576 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_a_small_json_object_is_refused(file: Path, data: bytes, said: str) -> None:
    assert said in message_of(file, data)


def test_a_file_of_exactly_the_largest_size_is_read(file: Path) -> None:
    file.write_text('{"a": "' + "x" * (LARGEST_FILE - 9) + '"}')
    assert file.stat().st_size == LARGEST_FILE
    assert len(read_json_object(file)) == 1


def test_an_absent_file_is_named(file: Path) -> None:
    assert "No such file" in message_of(file)


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
def test_an_impossible_name_is_an_error(tmp_path: Path, name: str) -> None:
    assert message_of(tmp_path / name).startswith("cannot read ")


def test_what_is_not_a_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        assert "is not a regular file" in message_of(path)


def test_a_described_value_is_short_and_printable() -> None:
    assert describe("\x1b[31m\ud800") == '"\\u001b[31m\\ud800"'
    assert len(describe("x" * 10_000)) < 80
    assert describe(-(10**5000)) == "an integer of more than 40 digits"
    assert (describe({"a": 1}), describe([1, 2]), describe(None)) == ("an object", "a list of 2", "null")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:01eE-.ntfaNI\\u ', max_size=60).map(str.encode))
def test_random_bytes_raise_nothing_but_a_config_error(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    try:
        read_json_object(file)
    except ConfigError as error:
        assert f"`{file}`" in error.message
