"""What a server adds to a token, on streams of a few tokens."""

import asyncio
from dataclasses import replace

import pytest

import shoal.bench.overhead
from miniature import MINI
from shoal.assemble import MINIATURE
from shoal.bench.overhead import AIM_SECONDS, Overhead
from shoal.bench.reciter import Reciter
from shoal.bench.run import RELEASE
from shoal.bench.stream_client import read_all
from shoal.bench.workbench import Workbench
from shoal.config.layouts import load_config
from shoal.engine.engine import Engine
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.plan.rates import SHARE
from shoal.serve.beside import serving


@pytest.mark.parametrize("requests", [1, 2])
def test_the_row_tells_what_the_server_adds_and_its_share_of_a_real_token(
    bench: Workbench, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shoal.bench.overhead, "ROUNDS", 3)
    overhead = Overhead(MINIATURE, RELEASE, serving, bench.probe, requests, tokens=12)
    row = overhead.result()
    assert row.name == ("serve_overhead" if requests == 1 else "serve_overhead_2")
    assert row.rounds + row.dropped == 3
    more = {name: value for name, value in row.more.items() if isinstance(value, float)}
    assert row.value == pytest.approx(max(more["wall_ms"], more["processor_ms"])) == pytest.approx(row.seconds * 1e3)
    # HTTP and JSON are not free, and no machine is a hundred times as slow as this.
    assert 0.02 < row.value < 1000
    assert row.ratio == pytest.approx(row.value / more["real_token_ms"])
    assert f"{row.ratio:.3%} of a real token, " in row.note and f"one alone takes {AIM_SECONDS} s" in row.note
    aim = AIM_SECONDS * more["real_token_ms"] / overhead.step_seconds(1, more["probe_gb_per_second"] * 1e9)
    assert more["share_at_aim"] == pytest.approx(row.value / aim)


def test_a_real_token_is_the_releases_bytes_over_what_kernels_make_of_the_memory(bench: Workbench) -> None:
    overhead = Overhead(MINIATURE, RELEASE, serving, bench.probe, 1, 12)
    alone, together = overhead.step_seconds(1, 20e9), overhead.step_seconds(8, 20e9)
    assert 12.5e9 / SHARE / 20e9 < alone < 1.05
    assert overhead.step_seconds(1, 40e9) == pytest.approx(alone / 2)
    # Experts are shared by chance only, the dense weights always.
    assert 2 * alone < together < 6 * alone


def test_the_reciter_gives_its_ids_in_turn_whoever_asks() -> None:
    config = replace(load_config(MINI), max_position_embeddings=64)
    engine = Engine(Reciter(config, [5, 6, 7]), -1, max_running=2)
    options = SamplingOptions(max_new_tokens=4)
    first, second = (engine.stream(Request(ids, options)) for ids in ((9, 9, 9), (9, 9, 9, 9)))
    assert [event.token_id for event in first] == [5, 6, 7, 5]
    assert [event.token_id for event in second] == [6, 7, 5, 6]


def test_an_answer_without_an_end_is_no_measurement() -> None:
    async def ask() -> None:
        async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head, _, _ = (await reader.readuntil(b"}]")).partition(b"\r\n")
            assert head.startswith(b"POST /v1/chat/completions")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\ndata: {}\n\n")
            writer.close()

        server = await asyncio.start_server(cut, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await read_all(f"http://127.0.0.1:{port}", 1, 2)

    with pytest.raises(ConnectionError, match="expected `data: "):
        asyncio.run(ask())
