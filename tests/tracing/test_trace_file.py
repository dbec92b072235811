import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from shoal.errors import HeaderError, OptionError, ShoalError, TensorError
from shoal.tracing.trace_file import TraceFile, check_writable, write_trace

TENSORS = {
    "logits": torch.randn(3, 5),
    "L2.index_score": torch.tensor([[-torch.inf, 1.5]], dtype=torch.bfloat16),
    "L6.candidates": torch.tensor([[True, False, True]]),
    "L2.topk": torch.tensor([[3, -1]], dtype=torch.int32),
    "cache.L2.compress_kv": torch.zeros((0, 64), dtype=torch.bfloat16),
}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    write_trace(path, TENSORS, {"arithmetic": "wide"})
    with TraceFile(path) as file:
        assert file.metadata == {"arithmetic": "wide"}
        assert set(file) == set(TENSORS)
        for name, value in TENSORS.items():
            assert file[name].dtype == value.dtype and torch.equal(file[name], value)
    assert set(load_file(path)) == set(TENSORS)
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_trace_stays_when_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    write_trace(path, TENSORS, {})
    before = path.read_bytes()
    shared = torch.zeros(4)
    # safetensors refuses two names for one memory after the temporary file has its name.
    with pytest.raises((RuntimeError, OptionError)):
        write_trace(path, {"a": shared, "b": shared}, {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="it is a directory"):
        check_writable(tmp_path)
    with pytest.raises(OptionError, match=r"there is no directory `.*nowhere`"):
        check_writable(tmp_path / "nowhere" / "t.safetensors")


def test_a_dtype_no_trace_has_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    save_file({"x": torch.zeros(2, dtype=torch.float8_e4m3fn)}, path)
    with TraceFile(path) as file, pytest.raises(TensorError, match=r"`x` is F8_E4M3 in `.*`, expected one of BOOL"):
        file["x"]


def test_booleans_that_are_neither_0_nor_1_are_true(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    save_file({"x": torch.tensor([True, False])}, path)
    content = path.read_bytes()
    path.write_bytes(content[:-2] + b"\x07\x00")
    with TraceFile(path) as file:
        assert file["x"].tolist() == [True, False] and file["x"].long().tolist() == [1, 0]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_an_error_with_a_name(content: bytes) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"shoal-test-{os.getpid()}.safetensors"
    path.write_bytes(content)
    try:
        with TraceFile(path) as file:
            for name in file:
                file[name]
    except ShoalError as error:
        assert isinstance(error, (HeaderError, TensorError))
    finally:
        path.unlink()
