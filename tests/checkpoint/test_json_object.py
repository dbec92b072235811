import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.checkpoint.json_object import MAX_JSON_DEPTH, parse_json_object, quoted, shown
from shoal.errors import HeaderError, ShardIndexError

WHERE = Path("some.json")


@pytest.mark.parametrize(
    ("blob", "found"),
    [
        (b"", "does not hold valid JSON"),
        (b'{"a": 1', "does not hold valid JSON"),
        (b'{"a": 1} {}', "does not hold valid JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "does not hold valid JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "does not hold valid JSON"),
        (b'{"\xff": 1}', "is not UTF-8, byte 2"),
        ('{"a": 1}'.encode("utf-16"), "is not UTF-8"),
        (b"[1]", "holds [1], expected a JSON object"),
        (b"null", "holds null, expected a JSON object"),
        (b'{"a": 1, "b": 2, "a": 1}', "has the key `a` twice"),
        (b'{"x": {"a": 1, "\\u0061": 2}}', "has the key `a` twice"),
        (b"[" * 100_000, "deeper than 16 levels"),
        (b'{"a":' * 100_000, "deeper than 16 levels"),
        (b'{"\\"": ' + b"[" * 17, "deeper than 16 levels"),
        (b'{"\\\\": ' + b"[" * 17, "deeper than 16 levels"),
        (b" " * 100_000_001, "claims 100,000,001 bytes of JSON"),
    ],
)
def test_a_lie_is_the_callers_error(blob, found):
    for error in (HeaderError, ShardIndexError):
        with pytest.raises(error, match=r"`some.json` .*" + re.escape(found)):
            parse_json_object(blob, WHERE, error)


def test_the_deepest_allowed_nesting_is_read():
    depth = MAX_JSON_DEPTH - 1
    value = parse_json_object(b'{"a":' + b"[" * depth + b"]" * depth + b"}", WHERE, HeaderError)
    assert json.dumps(value).count("[") == depth
    with pytest.raises(HeaderError, match=r"deeper"):
        parse_json_object(b'{"a":' + b"[" * (depth + 1) + b"]" * (depth + 1) + b"}", WHERE, HeaderError)


texts = st.text(alphabet=st.sampled_from('[]{}\\"ab\u20ac'), max_size=30)


@given(st.dictionaries(texts, texts | st.lists(texts)), st.booleans())
def test_brackets_and_quotes_inside_strings_are_not_structure(value, ascii_only):
    blob = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert parse_json_object(blob, WHERE, HeaderError) == value


def test_what_a_message_shows_is_short_and_printable():
    assert quoted("päth/名") == "`päth/名`"
    assert quoted("a\n\x1b\udc80") == r"`a\n\x1b\udc80`"
    assert quoted("x" * 5000) == f"`{'x' * 120}… (5,000 characters)`"
    assert shown({"a": [True, None, "\x1b"]}) == '{"a": [true, null, "\\u001b"]}'
