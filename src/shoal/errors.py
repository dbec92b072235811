"""Every error a user can cause or meet; wrong code asserts, wrong data raises one of these."""


class ShoalError(Exception):
    """Something outside the program is wrong. The message names what, where, found and wanted.

    `hint`, when given, is one sentence on what the user can do about it.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(ShoalError):
    """A configuration file is absent, unreadable, incomplete or contradicts itself."""


class CheckpointError(ShoalError):
    """A checkpoint directory, shard or index is not what it must be."""


class HeaderError(CheckpointError):
    """A shard's safetensors header is malformed, truncated or hostile."""


class ShardIndexError(CheckpointError):
    """`model.safetensors.index.json` is malformed or disagrees with the shards."""


class TensorError(CheckpointError):
    """A tensor is missing, unexpected, or has the wrong dtype, shape or codes."""


class FileChangedError(CheckpointError):
    """A shard was shortened, rewritten or became unreadable after it was opened."""


class EngramError(ShoalError):
    """Engram tables, primes or the compressed token map disagree with the config."""


class TokenizerError(ShoalError):
    """The tokenizer is absent, malformed or belongs to another vocabulary."""


class PromptError(ShoalError):
    """A prompt is empty, too long, not text, or holds ids outside the vocabulary."""


class EvalError(ShoalError):
    """The items of an evaluation are absent, malformed or ask for what no reply can be."""


class SnapshotError(ShoalError):
    """A saved sequence state is damaged or belongs to another model."""


class OptionError(ShoalError):
    """Options contradict each other or the machine cannot honour them."""


class CacheFullError(ShoalError):
    """No page of KV cache is left for another token; a sequence that is released makes room."""


class QueueFullError(ShoalError):
    """As many requests wait as may; asking again later can succeed."""


class EngineStoppedError(ShoalError):
    """The engine was closed, or failed, before the request ended."""


class RemoteError(ShoalError):
    """A server that was asked is out of reach, refused, or did not answer as agreed."""
