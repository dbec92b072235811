"""One forward of several sequences, that fails only for whom it must.

A forward that fails leaves every cache as it was, so each sequence can be tried again alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxtyping import Float32
from torch import Tensor

from shoal.engine.model import Model
from shoal.engine.sequence import Sequence as Running
from shoal.errors import CacheFullError, ShoalError
from shoal.model.batch import Batch


class ForwardAbandonedError(Exception):
    """Nobody waits for any sequence of the forward any more."""


@dataclass(frozen=True)
class Outcome:
    """What a sequence that fed `count` tokens got: logits where it fed all it knows, or what went wrong.

    `count` 0: it did not run.
    """

    sequence: Running
    count: int
    logits: Float32[Tensor, "vocab"] | None = None
    problem: ShoalError | None = None


def run_forward(
    model: Model, chunks: Sequence[tuple[Running, int]], is_stopped: Callable[[], bool]
) -> Sequence[Outcome]:
    """Feed each sequence its next tokens. A batch that fails is run again sequence by sequence, each once.

    Raises ForwardAbandonedError between two layers when `is_stopped` or when no sequence is wanted any more, and
    CacheFullError; every sequence is then as it was before.
    """
    try:
        return _run(model, chunks, is_stopped)
    except CacheFullError:
        raise
    except ShoalError as problem:
        if len(chunks) == 1:
            return [Outcome(*chunks[0], problem=problem)]
    return [_run_alone(model, chunk, is_stopped) for chunk in chunks]


def _run_alone(model: Model, chunk: tuple[Running, int], is_stopped: Callable[[], bool]) -> Outcome:
    try:
        return _run(model, [chunk], is_stopped)[0]
    except (ForwardAbandonedError, CacheFullError):
        # Not raised: what others of the batch got by now must not be lost. The next step meets it again.
        return Outcome(chunk[0], 0)
    except ShoalError as problem:
        return Outcome(*chunk, problem=problem)


def _run(model: Model, chunks: Sequence[tuple[Running, int]], is_stopped: Callable[[], bool]) -> Sequence[Outcome]:
    sequences = [sequence for sequence, _ in chunks]
    caches = [sequence.cache for sequence in sequences if sequence.cache is not None]
    ids = [sequence.next_ids(count) for sequence, count in chunks]
    is_last = [sequence.length + count == sequence.num_known for sequence, count in chunks]
    batch = Batch.build(ids, caches, logits=is_last)
    output = model.forward(batch, caches, on_layer=_watching(model, chunks, is_stopped))
    rows = iter(output.logits)
    return [Outcome(*chunk, next(rows) if wants else None) for chunk, wants in zip(chunks, is_last, strict=True)]


def _watching(
    model: Model, chunks: Sequence[tuple[Running, int]], is_stopped: Callable[[], bool]
) -> Callable[[int], None]:
    """Tells prompts how far they are, a chunk's tokens counted layer by layer, and ends what nobody wants."""
    layers = model.config.n_layers
    prompts = [(sequence, sequence.length, count) for sequence, count in chunks if sequence.is_prompt]

    def on_layer(done: int) -> None:
        if is_stopped() or not any(sequence.is_wanted for sequence, _ in chunks):
            raise ForwardAbandonedError
        for sequence, start, count in prompts:
            sequence.tell_prompt(start + count * done // layers)

    return on_layer
