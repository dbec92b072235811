"""A process that asks a server and reads its streams, so that what a client costs is not taken for the server's.

`python -m shoal.bench.stream_client URL REQUESTS TOKENS`: at each line of its input it sends the requests, all at once,
reads them to their end, and says how many bytes that was. Nothing is parsed. Standard library only.
"""

import asyncio
import json
import sys
from urllib.parse import urlsplit

PATH = "/v1/chat/completions"
ASKED = {"messages": [{"role": "user", "content": "Tell me."}], "thinking": False, "temperature": 0, "stream": True}
_END, _PIECE_NBYTES = b"data: [DONE]", 1 << 16


def request(host: str, tokens: int) -> bytes:
    """A whole one, after whose answer the server closes."""
    body = json.dumps(ASKED | {"max_tokens": tokens}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def read_one(host: str, port: int, content: bytes) -> int:
    """The bytes of one answer; raises ConnectionError where it has no end."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(content)
    nbytes, tail = 0, b""
    while piece := await reader.read(_PIECE_NBYTES):
        nbytes, tail = nbytes + len(piece), (tail + piece)[-64:]
    writer.close()
    if _END not in tail:
        raise ConnectionError(f"the answer ends with {tail!r}, expected `{_END.decode()}`")
    return nbytes


async def read_all(url: str, requests: int, tokens: int) -> int:
    """The bytes of all answers."""
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None, url
    content = request(parts.netloc, tokens)
    return sum(await asyncio.gather(*(read_one(parts.hostname, parts.port, content) for _ in range(requests))))


def main(url: str, requests: int, tokens: int) -> None:
    """Until its input ends."""
    for _ in sys.stdin:
        sys.stdout.write(f"{asyncio.run(read_all(url, requests, tokens))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
