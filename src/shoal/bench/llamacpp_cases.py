"""The routed experts of a step against llama.cpp's MXFP4, the same shapes, by turns in one process."""

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import torch

from shoal.bench.case import Against, Sample
from shoal.bench.machine import free_memory
from shoal.bench.moe_cases import ACTIVE
from shoal.bench.operators import Routing, run_routed
from shoal.bench.peer import PeerLayer, peer_version
from shoal.bench.region import FEWEST_EXPERTS, RESERVE_NBYTES
from shoal.bench.workbench import NotMeasured, Workbench

MOST_PEER_EXPERTS = 192


class AgainstLlamaCpp(Against):
    """`ratio` is llama.cpp's time over Shoal's. Its experts are as many as fit beside Shoal's, at most half a layer."""

    tokens: ClassVar[int]
    steps: ClassVar[int]

    def set_up(self, bench: Workbench) -> None:
        shape = bench.region.shape
        # Filling it takes a copy of a third of it.
        count = min(MOST_PEER_EXPERTS, bench.region.count, (free_memory() - RESERVE_NBYTES) * 3 // 4 // shape.nbytes)
        if count < FEWEST_EXPERTS:
            raise NotMeasured(f"there is memory for {count} experts of llama.cpp's, wanted at least {FEWEST_EXPERTS}")
        self.layer = PeerLayer.create(bench.peers, shape, count, bench.threads)
        self.run = self.layer.run(self.tokens, ACTIVE)
        self.x = bench.activations(self.tokens, shape.dim)
        self.x_q8 = bench.kernels().quantize_q8(self.x)
        self.waiting: list[int] = []
        self.version = peer_version(bench.peers) if bench.peers else ""

    def draw(self, bench: Workbench) -> Mapping[str, Sample]:
        self.layer.pause()
        kernels, shoal, llamacpp = bench.kernels(), [], []
        for _ in range(self.steps):
            picks = self._picks(bench)
            routing = Routing.draw(bench.region, picks, bench.generator)
            shoal.append(partial(run_routed, kernels, self.x_q8, routing))
            llamacpp.append(partial(self.run, self.x.float(), picks.int().contiguous()))
        nbytes = len(routing.experts) * bench.region.shape.nbytes
        return {"shoal": Sample(shoal, nbytes), "llamacpp": Sample(llamacpp, nbytes)}

    def more(self, seconds: Mapping[str, float]) -> dict[str, object]:
        return super().more(seconds) | {
            "peer": self.version,
            "peer_layout": self.layer.layout,
            "peer_experts": self.layer.count,
        }

    def tear_down(self) -> None:
        self.run.close()
        self.layer.close()

    def _picks(self, bench: Workbench) -> torch.Tensor:
        """Experts that neither of the two has read just before."""
        if self.tokens > 1:
            return torch.rand((self.tokens, self.layer.count), generator=bench.generator).topk(ACTIVE).indices
        if len(self.waiting) < ACTIVE:
            self.waiting = torch.randperm(self.layer.count, generator=bench.generator).tolist()
        drawn, self.waiting = self.waiting[:ACTIVE], self.waiting[ACTIVE:]
        return torch.tensor([drawn])


class AgainstLlamaCpp1(AgainstLlamaCpp):
    """One token."""

    name, tokens, steps = "vs_llamacpp_1", 1, 4


class AgainstLlamaCpp128(AgainstLlamaCpp):
    """128 tokens."""

    name, tokens, steps = "vs_llamacpp_128", 128, 1
