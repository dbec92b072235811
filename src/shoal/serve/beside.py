"""A server in a thread beside what asks it, on a free port of this machine."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.config.schema import ModelConfig
from shoal.engine.engine import Engine
from shoal.serve.listening import listen, resolve, url_of
from shoal.serve.served import Served, ServedModel
from shoal.serve.server import Server
from shoal.text.tokenizer import Tokenizer

_HOST, _LOOK_SECONDS = "127.0.0.1", 0.005


@contextmanager
def serving(engine: Engine, tokenizer: Tokenizer, config: ModelConfig) -> Iterator[str]:
    """The URL at which an engine that has started answers, until the end of the context, which ends the engine too."""
    listening = listen(resolve(_HOST, 0))
    served = Served()
    served.open(ServedModel(engine, tokenizer, config))
    server = Server(served, None)
    thread = threading.Thread(target=server.run, args=([listening],), name="shoal-serve", daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(_LOOK_SECONDS)
        yield url_of(listening, _HOST)
    finally:
        server.stop()
        thread.join()
