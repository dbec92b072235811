from pathlib import Path

import pytest

from shoal.doctor.kernel_file import as_number, read_fields, read_number, read_text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_what_is_not_there_says_nothing(file: Path, tmp_path: Path) -> None:
    assert (read_text(file), read_number(file), read_fields(file)) == (None, None, {})
    assert read_text(tmp_path) is None


@pytest.mark.parametrize(
    ("content", "number"),
    [("12\n", 12), ("-1", -1), ("max", None), ("", None), ("1 2", None), ("9" * 99, None), ("٣", None)],
)
def test_a_number_is_one_integer(file: Path, content: str, number: int | None) -> None:
    file.write_text(content)
    assert read_number(file) == number == as_number(content.strip())


def test_fields_are_bytes_where_the_unit_is_kb(file: Path) -> None:
    file.write_bytes(b"MemTotal:  24 kB\nHugePages_Total:  3\ninactive_file 4096\n\nodd\nNode 0, x\n\xff\xfe bad\n")
    assert read_fields(file) == {"MemTotal": 24 * 1024, "HugePages_Total": 3, "inactive_file": 4096}
