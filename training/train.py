"""`python -m training.train CORPUS OUT`: trains the miniature stage by stage, or goes on where it stopped.

Quantisation is on from the first step. The state is written to OUT every few minutes and when interrupted.
"""

import argparse
import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.fx.experimental._config
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from shoal.synth.replacement import replacing
from training.batches import TOKENS, Batch, Batches, Corpus
from training.entries import entries_from_keys
from training.geometry import geometry, token_map
from training.model import Miniature
from training.optimizer import Rates, optimizers, set_rate
from training.stages import STAGES, Stage
from training.weights import Weights

HELD_OUT = 400
BIAS_STEP = 0.002
SAVE_SECONDS, SHOW_SECONDS = 600, 10
FITTED = 8  # batches that entries are fitted to
STATE, TOKENIZER = "state.pt", "tokenizer.json"


class Training:
    """Weights, optimisers and the step of a stage that they have reached; `corpus` is the stage's."""

    def __init__(self, corpus: Path, tokenizer: Path, out: Path, stage: Stage, *, seed: int, compiled: bool) -> None:
        self.corpus, self.out, self.stage, self.seed = Corpus.load(corpus), out, stage, seed
        self.config = geometry(tokenizer)
        self.weights = Weights(self.config, seed)
        self.model = Miniature(self.weights, compiled)
        # Of batches of any size, without gradients: each would compile anew.
        self.plain = Miniature(self.weights, compiled=False)
        self.optimizers = optimizers(self.weights, Rates())
        self.batches = Batches(self.corpus, self.config, token_map(tokenizer, self.config))
        self.kinds = json.loads((corpus / "kinds.json").read_text())
        self.step, self.seconds = 0, 0.0
        self.first, self.before = 0, 0.0  # where this run began
        self._restore()

    def run(self) -> None:
        """Train to the end of the stage. An interruption saves first."""
        if self.step == 0 and self.stage.entries_from_keys:
            entries_from_keys(self.plain, map(self.batches.build, islice(self._order(), FITTED)))
        order = islice(self._order(), self.step, None)
        self.first, self.before = self.step, self.seconds
        began, saved, shown = time.monotonic() - self.seconds, time.monotonic(), 0.0
        losses: list[float] = []
        try:
            while self.step < self.stage.steps:
                losses.append(self._advance(self.batches.build(next(order))))
                self.seconds = time.monotonic() - began
                if time.monotonic() - shown > SHOW_SECONDS:
                    self._show(losses)
                    shown, losses = time.monotonic(), []
                if time.monotonic() - saved > SAVE_SECONDS:
                    self.save()
                    saved = time.monotonic()
        finally:
            self.save()
        self._show_held_out()

    def _order(self) -> Iterator[NDArray[np.int64]]:
        """The documents of every batch, from the stage's first step on."""
        return self.batches.shuffled(0, self.corpus.count - HELD_OUT, self.seed)

    def _advance(self, batch: Batch) -> float:
        set_rate(self.optimizers, self.stage.share(self.step))
        output = self.model.forward(batch.ids, batch.rows, sparse=self.step >= self.stage.dense)
        nats, weights = self._nats(output.hidden, batch)
        loss = (nats * weights).sum() / weights.sum()
        (loss + output.index_loss).backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        for layer, dispatch in enumerate(output.dispatches):
            load = torch.tensor(dispatch.counts, dtype=torch.float32)
            self.weights.gate_bias[layer] += BIAS_STEP * (load.mean() - load).sign()
        self.step += 1
        return float(loss.detach())

    def _nats(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of every token that is worth learning: the surprise at it, and its weight."""
        weights = batch.weights.flatten()
        learned = weights.nonzero()[:, 0]
        logits = self.model.logits(hidden[learned])
        return functional.cross_entropy(logits, batch.targets.flatten()[learned], reduction="none"), weights[learned]

    @torch.no_grad()
    def held_out(self) -> dict[str, float]:
        """Nats a learned token of documents that are never trained on, by kind, and of all under ``."""
        totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        first = self.corpus.count - HELD_OUT
        for kind, name in enumerate(self.kinds):
            documents = first + (self.corpus.kinds[first:] == kind).nonzero()[0]
            for start in range(0, len(documents), 8):
                batch = self.batches.build(documents[start : start + 8])
                nats, weights = self._nats(self.plain.forward(batch.ids, batch.rows, sparse=True).hidden, batch)
                for key in (name, ""):
                    totals[key][0] += float((nats * weights).sum())
                    totals[key][1] += float(weights.sum())
        return {name: nats / weight for name, (nats, weight) in totals.items()}

    def save(self) -> None:
        """Write the state whole or not at all."""
        self.out.mkdir(parents=True, exist_ok=True)
        state = {
            "weights": self.weights.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "stage": self.stage.name,
            "step": self.step,
            "seconds": self.seconds,
        }
        with replacing(self.out / STATE) as file:
            torch.save(state, file)

    def _restore(self) -> None:
        file = self.out / STATE
        if not file.exists():
            return
        state = torch.load(file, weights_only=True)
        self.weights.load_state_dict(state["weights"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.seconds = state["seconds"]
        if state["stage"] == self.stage.name:
            self.step = state["step"]
            _say(f"{self.stage.name}: going on at step {self.step:,}")

    def _show(self, losses: list[float]) -> None:
        pace = (self.seconds - self.before) / (self.step - self.first)
        left = (self.stage.steps - self.step) * pace / 60
        loss = sum(losses) / len(losses)
        _say(
            f"{self.stage.name} {self.step:,} of {self.stage.steps:,}  loss {loss:.4f}  {TOKENS / pace:,.0f} tokens/s  "
            f"{self.seconds / 60:.1f} min, {left:.0f} left"
        )

    def _show_held_out(self) -> None:
        found = self.held_out()
        _say(f"held out {found.pop(''):.4f}  " + "  ".join(f"{name} {nats:.3f}" for name, nats in found.items()))


def train(corpus: Path, out: Path, seed: int, *, compiled: bool) -> None:
    """Every stage that is not over yet, in turn."""
    reached = reached_stage(out)
    for stage in STAGES[STAGES.index(reached) if reached else 0 :]:
        Training(corpus / stage.name, corpus / TOKENIZER, out, stage, seed=seed, compiled=compiled).run()


def reached_stage(out: Path) -> Stage | None:
    """The stage that the state in `out` is in; None before the first."""
    if not (out / STATE).exists():
        return None
    name = torch.load(out / STATE, weights_only=True, mmap=True)["stage"]
    return next(stage for stage in STAGES if stage.name == name)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="do not compile: slower, but starts at once")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    # Sizes that happen to be equal in the first batch are not in the next: one graph shall serve all lengths.
    torch.fx.experimental._config.use_duck_shape = False
    # A service or a shell ends with TERM what a person ends with ^C; both save first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        train(arguments.corpus, arguments.out, arguments.seed, compiled=not arguments.plain)
    except KeyboardInterrupt:
        _say("interrupted; the same command goes on")


if __name__ == "__main__":
    main()
