"""`shoal serve`: the model behind the HTTP interfaces that clients know; all it says goes to stderr."""

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from shoal.cli import generate_options as given
from shoal.cli import serve_options as serving
from shoal.cli.loading import expert_places, load_model, memory_places, prefix_places, say, size
from shoal.cli.more_shards import Also
from shoal.errors import OptionError

if TYPE_CHECKING:
    from shoal.api import Places
    from shoal.serve.listening import Address
    from shoal.serve.options import ServeOptions
    from shoal.serve.served import Served, ServedModel

MIB = 2**20


def command(
    checkpoint: given.CheckpointDirectory = None,
    also: Also = None,
    host: serving.Host = "127.0.0.1",
    port: serving.Port = 8000,
    api_key: serving.ApiKey = None,
    api_key_file: serving.ApiKeyFile = None,
    allow_open: serving.AllowOpen = False,
    served_model_name: serving.ModelName = "deepseek-v4.1-flash",
    max_running: serving.MaxRunning = 8,
    queue: serving.Queue = 64,
    prefix_memory: serving.PrefixMemory = None,
    cache_dir: serving.CacheDir = None,
    cache_disk: serving.CacheDisk = None,
    cors: serving.Cors = None,
    max_body: serving.MaxBody = "32MiB",
    log_requests: serving.LogRequests = False,
    shutdown_seconds: serving.ShutdownSeconds = 30.0,
    memory: given.Memory = None,
    expert_memory: given.ExpertMemory = None,
    engram_memory: given.EngramMemory = None,
    kv_memory: given.KVMemory = None,
    resident_engram: given.ResidentEngram = False,
    expert_profile: given.ExpertProfile = None,
    record_routing: given.RecordRouting = None,
    no_prefetch: given.NoPrefetch = False,
    threads: given.Threads = None,
    prefill_chunk: given.PrefillChunk = None,
    quiet: serving.Quiet = False,
) -> None:
    """Answer over HTTP as OpenAI and Anthropic do, until Ctrl-C."""
    places = memory_places(
        memory=memory, kv_memory=kv_memory, engram_memory=engram_memory, resident_engram=resident_engram
    )
    places |= expert_places(
        also=also, expert_memory=expert_memory, expert_profile=expert_profile, no_prefetch=no_prefetch
    )
    places |= prefix_places(prefix_memory, cache_dir, cache_disk)
    places |= {"record_routing": record_routing, "max_running": max_running, "max_waiting": queue}
    body_nbytes = size(max_body)
    assert body_nbytes is not None
    keys = _keys(api_key, api_key_file)
    origins = tuple(_origin(each) for each in cors or ())

    from shoal.serve.listening import listen, resolve, url_of
    from shoal.serve.options import Limits, ServeOptions

    address = resolve(host, port)
    _refuse_open(address, host, keys, allow_open)
    options = ServeOptions(
        model_name=served_model_name,
        api_keys=keys,
        origins=origins,
        shutdown_seconds=shutdown_seconds,
        log_requests=log_requests,
        is_local=address.is_local,
        limits=Limits(body_nbytes=body_nbytes),
    )
    listening = listen(address)
    _Serving(options, checkpoint, places, threads, prefill_chunk, quiet).run(listening, url_of(listening, host))


class _Serving:
    """One run of the server."""

    def __init__(
        self,
        options: "ServeOptions",
        directory: Path | None,
        places: "Places",
        threads: int | None,
        prefill_chunk: int | None,
        quiet: bool,
    ) -> None:
        self.options, self.quiet = options, quiet
        self._load = directory, places, threads, prefill_chunk, quiet
        self._closing = ExitStack()

    def run(self, listening: socket.socket, url: str) -> None:
        """Until a signal comes; what is to be kept is written before it returns."""
        # Inside, for importing torch takes seconds, and a port in use is to be said before that.
        from shoal.serve.served import Served
        from shoal.serve.server import serve

        served = Served(self.options)
        log = say if self.options.log_requests else None
        if not self.quiet:
            say(f"listening on {url}; `/ready` says when the model is there")
        with self._closing:
            serve(
                served, listening, self._loader(served), log, lambda: say(f"serving {self.options.model_name} at {url}")
            )
        if not self.quiet:
            say("stopped")

    def _loader(self, served: "Served") -> "Callable[[], ServedModel]":
        def load() -> "ServedModel":
            from shoal.serve.served import ServedModel
            from shoal.serve.store_counts import store_counts

            def told(state: str) -> None:
                served.loading = state

            model = load_model(*self._load, told)
            self._closing.callback(model.close)
            return ServedModel(model.assembled.engine, model.tokenizer, model.config, store_counts(model.assembled))

        return load


def _keys(key: str | None, file: Path | None) -> tuple[str, ...]:
    """The given one, those of the file, or the environment's."""
    from shoal.serve.api_keys import checked_keys, read_keys

    if key is not None and file is not None:
        raise typer.BadParameter("`--api-key` and `--api-key-file` are both given, expected one of them")
    if file is not None:
        return read_keys(file)
    key = os.environ.get(serving.KEY_VARIABLE) if key is None else key
    return checked_keys((key,)) if key else ()


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if text != "*" and (parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/")):
        raise typer.BadParameter(f"`--cors {text}` is no origin, expected one like https://chat.example, or *")
    return text.rstrip("/")


def _refuse_open(address: "Address", host: str, keys: tuple[str, ...], allow_open: bool) -> None:
    if address.is_local or keys or allow_open:
        return
    raise OptionError(
        f"`--host {host}` lets other machines ask, and there is no key",
        hint="set one with `--api-key-file FILE`, or say `--allow-open` if anybody may.",
    )
