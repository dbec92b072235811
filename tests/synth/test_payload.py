import hashlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shoal.checkpoint.inventory import TensorSpec
from shoal.formats.float8 import E4M3_NAN, E8M0_NAN
from shoal.ops.weights import Float4Weight, Float8Weight, dequantize_weight
from shoal.synth.distributions import distribution_of
from shoal.synth.payload import POOL_ELEMENTS, Payload

NAMES = ("layers.0.attn.wq_a.weight", "layers.0.attn.wq_a.scale", "layers.3.ffn.experts.5.w2.weight", "embed.weight")
Specs = dict[str, TensorSpec]
PAYLOAD = Payload(0)


def content(payload: Payload, spec: TensorSpec) -> bytes:
    return b"".join(payload.portions(spec))


def floats(spec: TensorSpec) -> torch.Tensor:
    dtype = torch.float32 if spec.dtype == "F32" else torch.bfloat16
    return torch.frombuffer(bytearray(content(PAYLOAD, spec)), dtype=dtype).double()


def codes(spec: TensorSpec) -> torch.Tensor:
    return torch.frombuffer(bytearray(content(PAYLOAD, spec)), dtype=torch.uint8).view(spec.shape)


def test_every_tensor_has_its_bytes(mini_specs: Specs) -> None:
    assert all(len(content(PAYLOAD, spec)) == spec.nbytes for spec in mini_specs.values())


def test_no_code_is_nan(mini_specs: Specs) -> None:
    for spec in mini_specs.values():
        if spec.dtype == "F8_E8M0":
            assert not (codes(spec) == E8M0_NAN).any(), spec
        elif spec.dtype == "F8_E4M3":
            assert not ((codes(spec) & E4M3_NAN) == E4M3_NAN).any(), spec
        elif spec.dtype != "I8":
            assert floats(spec).isfinite().all(), spec


def test_a_tensor_does_not_depend_on_what_was_asked_before(mini_specs: Specs) -> None:
    names = list(mini_specs)[::97]
    forwards = {name: content(PAYLOAD, mini_specs[name]) for name in names}
    fresh = Payload(0)
    assert {name: content(fresh, mini_specs[name]) for name in reversed(names)} == forwards


def test_another_seed_changes_every_tensor(mini_specs: Specs) -> None:
    other = Payload(1)
    assert [s.name for s in mini_specs.values() if content(other, s) == content(PAYLOAD, s)] == []


def test_tensors_of_one_shape_differ(mini_specs: Specs) -> None:
    experts = [spec for spec in mini_specs.values() if spec.name.endswith(("w1.weight", "w3.weight"))]
    assert len({content(PAYLOAD, spec) for spec in experts}) == len(experts)


@pytest.mark.parametrize("dtype", ["BF16", "F8_E8M0"])
def test_a_tensor_larger_than_its_pool_goes_round(dtype: str) -> None:
    prime, width = POOL_ELEMENTS[dtype], 2 if dtype == "BF16" else 1
    spec = TensorSpec("layers.1.engram.embed.scale" if width == 1 else "embed.weight", dtype, (2 * prime + 5,), "x")
    whole = content(PAYLOAD, spec)
    assert len(whole) == spec.nbytes
    assert whole[: prime * width] == whole[prime * width : 2 * prime * width]
    assert whole[: 5 * width] == whole[-5 * width :]


@given(columns=st.integers(1, 300), rows=st.integers(0, 40), name=st.sampled_from(NAMES))
def test_a_shorter_tensor_of_the_name_is_a_beginning(columns: int, rows: int, name: str) -> None:
    dtype = {NAMES[0]: "F8_E4M3", NAMES[1]: "F8_E8M0", NAMES[2]: "I8", NAMES[3]: "BF16"}[name]
    short, long = (TensorSpec(name, dtype, (n, columns), "routed experts") for n in (rows, rows + 1))
    assert content(PAYLOAD, long).startswith(content(PAYLOAD, short))


def test_floats_have_the_mean_and_spread_they_were_given(mini_specs: Specs) -> None:
    large = [s for s in mini_specs.values() if s.dtype in ("BF16", "F32") and s.nbytes > 20_000]
    assert len(large) > 20
    for spec in large:
        values, wanted = floats(spec), distribution_of(spec)
        # Five standard errors.
        assert abs(values.mean() - wanted.mean) < 5 * wanted.spread / len(values) ** 0.5
        assert abs(values.std() / wanted.spread - 1) < 5 / (2 * len(values)) ** 0.5


def test_codes_times_scales_have_their_spread_to_half_a_power_of_two(mini_specs: Specs) -> None:
    for base in ("layers.4.attn.wo_b", "layers.4.attn.wq_b", "layers.4.ffn.experts.3.w1", "layers.4.ffn.experts.3.w2"):
        weight, scale = mini_specs[f"{base}.weight"], mini_specs[f"{base}.scale"]
        packed = (Float4Weight if weight.dtype == "I8" else Float8Weight)(codes(weight), codes(scale))
        ratio = dequantize_weight(packed).double().square().mean().sqrt() / distribution_of(scale).spread
        # √2 from rounding the exponent, the rest from a few scales only.
        assert 0.5 < ratio < 2


def test_scales_are_not_all_equal(mini_specs: Specs) -> None:
    scales = codes(mini_specs["layers.4.ffn.experts.3.w1.scale"])
    assert len(scales.unique()) == 3


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("layers.0.attn.wq_a.weight", "6f48622b8c28bcff"),
        ("layers.0.attn.wq_a.scale", "473f7b952887937b"),
        ("layers.0.ffn.experts.0.w1.weight", "e74a17a0d4290f13"),
        ("norm.weight", "24efddde662ea412"),
        ("layers.0.hc_attn_fn", "40e33e561341e512"),
    ],
)
def test_the_bytes_of_seed_0_stay_what_they_are(name: str, wanted: str, mini_specs: Specs) -> None:
    """A change here changes every benchmark checkpoint: raise the manifest's payload version with it."""
    assert hashlib.sha256(content(PAYLOAD, mini_specs[name])).hexdigest()[:16] == wanted
