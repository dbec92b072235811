import pytest

from shoal.checkpoint.inventory import TensorSpec
from shoal.synth.distributions import Distribution, distribution_of


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("embed.weight", Distribution(0.0, 1.0)),
        ("head.weight", Distribution(0.0, 5.0 * 160**-0.5)),
        ("norm.weight", Distribution(1.0, 0.15)),
        ("layers.0.attn.q_norm.weight", Distribution(1.0, 0.15)),
        ("layers.2.attn.compressor.norm.weight", Distribution(1.0, 0.15)),
        ("layers.0.ffn.gate.weight", Distribution(0.0, 2.5 * 160**-0.5)),
        ("layers.0.ffn.gate.bias_vl", Distribution(0.0, 0.1)),
        ("layers.0.attn.attn_sink", Distribution(0.0, 0.5)),
        ("layers.0.attn.wo_b.scale", Distribution(0.0, 0.25 * 5120**-0.5)),
        ("layers.2.attn.indexer.wq_b.scale", Distribution(0.0, 1.5 * 5120**-0.5)),
        ("layers.1.engram.embed.scale", Distribution(0.0, 1.0)),
        ("layers.0.ffn.shared_experts.w2.scale", Distribution(0.0, 0.1 * 5120**-0.5)),
        ("mtp.2.markov_head.embed.weight", Distribution(0.0, 0.5)),
        ("mtp.2.markov_head.head.weight", Distribution(0.0, 2.0 * 160**-0.5)),
    ],
)
def test_a_tensor_is_known_by_the_end_of_its_name(name: str, wanted: Distribution) -> None:
    dtype = "F8_E8M0" if name.endswith(".scale") else "BF16"
    assert distribution_of(TensorSpec(name, dtype, (4, 160), "attention")) == wanted


def test_an_image_is_not_shrunk_on_its_way_to_the_embeddings() -> None:
    spec = TensorSpec("aligner.w2.weight", "BF16", (4, 64), "vision")
    assert distribution_of(spec) == Distribution(0.0, 64**-0.5)
