import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import OptionError
from shoal.plan.size import GIB, MIB, gib, giga, parse_size


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("24GiB", 24 * GIB),
        ("64G", 64 * GIB),
        ("64g", 64 * GIB),
        ("512MB", 512_000_000),
        ("512M", 512 * MIB),
        ("1.5 TiB", 1536 * GIB),
        ("0.1GB", 100_000_000),
        ("4096", 4096),
        ("4096B", 4096),
        (" 7 kib ", 7168),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, nbytes: int) -> None:
    assert parse_size(text) == nbytes


@pytest.mark.parametrize(
    "text", ["", "G", "-1G", "1e9", "12 parsecs", "24GiBs", ".5G", "1,5G", "٣G", "1" * 99, "\x1b[31m"]
)
def test_anything_else_is_refused_and_quoted_printably(text: str) -> None:
    with pytest.raises(OptionError, match="is not a size, wanted for example `24GiB`") as caught:
        parse_size(text)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("text", ["0", "0GiB", "0.4B"])
def test_less_than_a_byte_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=re.escape(f"`{text}` is 0 bytes, wanted at least 1")):
        parse_size(text)


@given(st.integers(1, 1 << 50))
def test_plain_bytes_are_themselves(nbytes: int) -> None:
    assert parse_size(str(nbytes)) == nbytes


def test_sizes_are_shown_in_the_unit_that_says_something() -> None:
    assert [gib(n) for n in (0, 66, 9 * MIB, GIB, 1000 * GIB)] == [
        "0 GiB",
        "66 B",
        "9.00 MiB",
        "1.00 GiB",
        "1,000.00 GiB",
    ]
    assert [giga(n) for n in (0, 4.7e6, 13.03e9, 63_360e9)] == ["0.00", "0.0047", "13.03", "63,360.00"]
