"""The socket that a server listens on, taken before anything is loaded: what is wrong with it is said at once."""

import errno
import socket
from dataclasses import dataclass

from shoal.errors import OptionError
from shoal.serve.guard import is_loopback

_BACKLOG = 128


@dataclass(frozen=True)
class Address:
    """Where to listen: the numbers that a host's name stands for."""

    family: socket.AddressFamily
    sockaddr: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(str(self.sockaddr[0]))


def resolve(host: str, port: int) -> Address:
    """What `host` stands for. Raises `OptionError` where it does not resolve."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no host's name"
        raise OptionError(
            f"the host `{host}` does not resolve: {reason}",
            hint="`--host 127.0.0.1` serves this machine alone, `--host 0.0.0.0` all that reach it.",
        ) from None
    family, _, _, _, sockaddr = found[0]
    return Address(family, sockaddr)


def listen(address: Address) -> socket.socket:
    """Raises `OptionError` where the port is taken, may not be used, or the address is another machine's."""
    host, port = address.sockaddr[:2]
    listening = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address.sockaddr)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise _refused(error, host, port) from None
    return listening


def url_of(listening: socket.socket, host: str) -> str:
    """What to ask: `host` as it was given, but for those that stand for all of this machine's."""
    port = listening.getsockname()[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _refused(error: OSError, host: object, port: object) -> OptionError:
    match error.errno:
        case errno.EADDRINUSE:
            return OptionError(f"port {port} of `{host}` is in use", hint="another server runs there: try `--port`.")
        case errno.EACCES:
            return OptionError(f"port {port} may not be used", hint="ports below 1024 are the system's: try `--port`.")
        case errno.EADDRNOTAVAIL:
            return OptionError(f"`{host}` is no address of this machine", hint="`--host 0.0.0.0` takes all of them.")
    return OptionError(f"cannot listen on `{host}` port {port}: {error.strerror}")
