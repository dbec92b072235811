"""How a server behaves, decided once."""

from dataclasses import dataclass

from shoal.errors import OptionError

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """What a request may be at most. Beyond any of it the answer is an error that names it."""

    body_nbytes: int = 32 * MIB
    json_depth: int = 96
    messages: int = 4096
    tools: int = 512
    schema_nbytes: int = MIB
    choices: int = 8
    prompts: int = 64
    body_seconds: float = 60.0
    head_seconds: float = 60.0


@dataclass(frozen=True)
class ServeOptions:
    """Raises `OptionError` for a value out of range.

    Without `api_keys` everybody may ask. `model_name` is what clients see; any name they ask for is taken. `origins`
    are of web pages that may ask, besides our own. `keep_alive` is the seconds between two signs of life while a
    prompt is read; `send_seconds` after which a client that reads nothing is let go; `shutdown_seconds` what running
    requests have to end. `is_local`: only this machine can reach us.
    """

    model_name: str = "deepseek-v4.1-flash"
    api_keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    keep_alive: float = 5.0
    send_seconds: float = 120.0
    shutdown_seconds: float = 30.0
    log_requests: bool = False
    is_local: bool = True
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        for name in ("keep_alive", "send_seconds"):
            if not getattr(self, name) > 0:
                raise OptionError(f"`{name}` is {getattr(self, name)}, expected more than 0 seconds")
        if not self.shutdown_seconds >= 0:
            raise OptionError(f"`shutdown_seconds` is {self.shutdown_seconds}, expected 0 or more")
        if not self.model_name.strip():
            raise OptionError("the served model's name is empty, expected a name")
        if any(not key.strip() for key in self.api_keys):
            raise OptionError("an API key is empty, expected at least one character")
        if self.limits.body_nbytes < 1024:
            raise OptionError(f"the largest body is {self.limits.body_nbytes} bytes, expected 1,024 or more")
