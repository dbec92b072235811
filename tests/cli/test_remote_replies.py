"""The chat in the terminal, with a server."""

from collections.abc import Iterator

import pytest

from shoal.cli.remote_replies import RemoteReplies
from sse_server import SseServer, serving


@pytest.fixture
def server() -> SseServer:
    return SseServer()


@pytest.fixture
def url(server: SseServer) -> Iterator[str]:
    with serving(server) as url:
        yield url


def lines(*turns: str) -> bytes:
    return "".join(f"{turn}\n" for turn in turns).encode()


def test_answers_stream_and_the_conversation_is_sent_whole(run_shoal, server: SseServer, url: str) -> None:
    before = [": keep-alive", ": prompt 4/9 cached 2"]
    server.answer({"reasoning_content": "Hm."}, {"content": "Pa"}, {"content": "ris."}, before=before)
    arguments = ("--url", url, "--api-key", "secret", "--system", "S", "--effort", "12", "--seed", 3)
    code, out, err = run_shoal("chat", *arguments, stdin=lines("One", "Two", "/stats"))
    assert (code, out) == (0, "Paris.\nParis.\n")
    assert "last: prompt: 9 tokens, 5 of them from the cache; reply: 3 tokens; " in err
    headers, body = server.requests[1]
    assert headers["Authorization"] == "Bearer secret"
    assert "secret" not in err
    assert body["messages"] == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "One"},
        {"role": "assistant", "content": "Paris."},
        {"role": "user", "content": "Two"},
    ]
    assert (body["model"], body["reasoning_effort"], body["thinking"]) == ("shoal", 12, {"type": "enabled"})
    assert (body["seed"], body["stream"], body["stream_options"]) == (3, True, {"include_usage": True})


def test_what_was_not_asked_for_is_not_sent(run_shoal, server: SseServer, url: str) -> None:
    server.answer({"content": "x"})
    run_shoal("chat", "--url", url, stdin=lines("Hi", "/effort none", "Hi"))
    plain, off = (body for _, body in server.requests)
    assert set(plain) == {"model", "messages", "stream", "stream_options", "temperature", "top_p", "seed"}
    assert (off["thinking"], off["reasoning_effort"]) == ({"type": "disabled"}, "none")


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (['data: {"error": {"message": "no more\\n\\nhint: wait."}}'], "broke off: no more\n\nhint: wait."),
        (['data: {"choices": [{"delta": {"content": "Pa"}}]}'], "ended the reply without `[DONE]`: it is not whole"),
        (["data: 7"], "sent `7`, expected a JSON object"),
        (["data: {"], "sent `{`, expected a JSON object"),
        ([], "ended the reply without `[DONE]`: it is not whole"),
    ],
)
def test_a_reply_that_is_not_whole_is_an_error(
    run_shoal, server: SseServer, url: str, sent: list[str], wanted: str
) -> None:
    server.lines = sent
    code, _, err = run_shoal("chat", "--quiet", "--url", url, stdin=lines("Hi"))
    assert code == 1
    assert wanted in err


def test_a_stream_of_other_shapes_is_read_for_what_it_has(run_shoal, server: SseServer, url: str) -> None:
    chunks = ("[]", "{}", '[{"delta": null}]', '[{"delta": {"content": 7}}]', '[{"delta": {"content": "ok"}}]', "[4]")
    server.lines = [*(f'data: {{"choices": {chunk}}}' for chunk in chunks), "data: [DONE]"]
    assert run_shoal("chat", "--quiet", "--url", url, stdin=lines("Hi"))[:2] == (0, "ok\n")


@pytest.mark.parametrize(
    ("status", "wanted"), [(401, "--api-key"), (404, "stands before `/chat/completions`"), (429, "/retry"), (500, "")]
)
def test_a_refusal_says_the_servers_words_and_what_to_do(
    run_shoal, server: SseServer, url: str, status: int, wanted: str
) -> None:
    server.status, server.lines = status, ['{"error": {"message": "not so"}}']
    code, out, err = run_shoal("chat", "--quiet", "--url", url, "--model", "m", stdin=lines("Hi"))
    assert (code, out) == (1, "")
    assert err.startswith(f"error: `{url}/chat/completions` answered {status}: not so\n")
    assert wanted in err


def test_no_server_and_no_model_are_sentences(run_shoal, server: SseServer, url: str) -> None:
    code, _, err = run_shoal("chat", "--url", "http://127.0.0.1:9/v1", stdin=lines("Hi"))
    assert code == 1
    assert err.startswith("error: cannot reach `http://127.0.0.1:9/v1/models`: ")
    server.models = {"data": []}
    assert "lists no model, expected `data[0].id`" in run_shoal("chat", "--url", url, stdin=lines("Hi")).err


def test_the_environment_may_hold_the_key(
    run_shoal, server: SseServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOAL_API_KEY", "of the environment")
    server.answer({"content": "x"})
    run_shoal("chat", "--url", url, stdin=lines("Hi"))
    assert server.requests[0][0]["Authorization"] == "Bearer of the environment"


def test_a_reader_that_leaves_tells_the_server(server: SseServer, url: str) -> None:
    server.lines, server.waits = ['data: {"choices": [{"delta": {"content": "Pa"}}]}'], True
    replies = RemoteReplies(url)
    from shoal.cli.chat_settings import ChatSettings

    live = replies.reply([{"role": "user", "content": "Hi"}], ChatSettings(), 0)
    parts = iter(live)
    assert next(parts).text == "Pa"
    assert not live.stop()
    parts.close()
    assert server.left.wait(10)
    replies.close()
    assert live.said.message() == {"role": "assistant", "content": "Pa"}
