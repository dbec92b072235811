from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from shoal.cli.prompt_source import PromptSource, decode, parse_ids
from shoal.errors import PromptError


@pytest.mark.parametrize(
    ("given_sources", "found"),
    [
        ({}, "none"),
        ({"text": "", "ids": ""}, "2 of them"),
        ({"text": "a", "file": Path("f"), "stdin": True}, "3 of them"),
    ],
)
def test_a_prompt_comes_from_exactly_one_source(given_sources: dict[str, object], found: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"found {found}"):
        PromptSource(**given_sources)


@given(st.lists(st.integers(-5, 2**40)))
def test_ids_are_read_back(ids: list[int]) -> None:
    assert parse_ids(",".join(map(str, ids))) == ids
    assert parse_ids(" , ".join(map(str, ids)) + " ") == ids


@pytest.mark.parametrize("bad", ["x", "", "1.5", "1_0", "+1", "٣", "--1", "1 2", "9" * 30])
def test_what_is_no_number_is_named_with_its_place(bad: str) -> None:
    with pytest.raises(PromptError, match=r"id 2 of the prompt is `.*`, expected a whole number"):
        parse_ids(f"7,{bad},8")


def test_a_file_is_used_to_its_last_newline(tmp_path: Path) -> None:
    (tmp_path / "prompt").write_bytes(b"a\r\nb\n")
    assert PromptSource(file=tmp_path / "prompt").read() == "a\r\nb\n"


def test_bytes_that_are_not_text_are_named_with_their_offset() -> None:
    with pytest.raises(PromptError, match="the prompt from here is not UTF-8: byte 0xff at offset 3"):
        decode("é".encode() + b"a\xff", "here")
