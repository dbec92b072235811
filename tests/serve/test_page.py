"""The page in a real browser, with a server that answers as a test says."""

import asyncio
import json
import shutil
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.testclient import TestClient

from shoal.serve import page

if TYPE_CHECKING:
    from conftest import LiveServer

KEY = "sk-of-the-tests"
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no `chromium`: `apt-get install chromium`")


class FakeApi:
    """What the page asks: `requests` are the bodies that came, `key` what it must send."""

    def __init__(self) -> None:
        self.requests = list[dict[str, Any]]()
        self.key = ""
        self.fails: tuple[int, dict[str, object]] | None = None
        self.parts: list[object] = []
        self.then = "ends"
        self.left = threading.Event()

    def reset(self) -> None:
        self.__init__()  # type: ignore[misc]

    def say(self, *parts: object, then: str = "ends") -> None:
        """`parts` are deltas, or comments as text; then it ends, breaks or waits for the reader to leave."""
        self.parts, self.then, self.fails = [*parts], then, None

    async def stream(self) -> AsyncIterator[str]:
        try:
            for part in self.parts:
                if isinstance(part, str):
                    yield f": {part}\n\n"
                else:
                    yield f"data: {json.dumps({'choices': [{'delta': part}]})}\n\n"
                await asyncio.sleep(0.005)
            while self.then == "waits":
                yield ": keep-alive\n\n"
                await asyncio.sleep(0.02)
            if self.then == "ends":
                usage = {"prompt_tokens": 40, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 31}}
                yield f"data: {json.dumps({'choices': [{'delta': {}, 'finish_reason': 'stop'}]})}\n\n"
                yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\ndata: [DONE]\n\n"
        finally:
            self.left.set()

    def app(self) -> FastAPI:
        app = FastAPI()
        app.include_router(page.router)

        @app.get("/v1/models")
        async def models(request: Request) -> JSONResponse:
            return self._refusal(request) or JSONResponse({"data": [{"id": "deepseek-v4.1-flash"}]})

        @app.post("/v1/chat/completions", response_model=None)
        async def chat(request: Request) -> JSONResponse | StreamingResponse:
            if refusal := self._refusal(request):
                return refusal
            self.requests.append(await request.json())
            if self.fails is not None:
                return JSONResponse({"error": self.fails[1]}, self.fails[0])
            return StreamingResponse(self.stream(), media_type="text/event-stream")

        return app

    def _refusal(self, request: Request) -> JSONResponse | None:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return JSONResponse({"error": {"message": "there is no API key"}}, 401)
        return None


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[FakeApi, str]]:
    api = FakeApi()
    config = uvicorn.Config(api.app(), port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield api, f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def api(served: tuple[FakeApi, str]) -> FakeApi:
    served[0].reset()
    return served[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        # As root, as in CI, Chromium has no sandbox to give.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Page:
    """The page, and what a browser complained of."""

    def __init__(self, tab: Any, url: str) -> None:
        self.tab, self.url = tab, url
        self.complaints = list[str]()
        self.asked = list[str]()
        tab.set_default_timeout(15_000)
        tab.on("console", lambda message: message.type in ("error", "warning") and self._complain(message.text))
        tab.on("pageerror", lambda error: self._complain(str(error)))
        tab.on("request", lambda request: self.asked.append(request.url))
        tab.goto(url)

    def _complain(self, text: str) -> None:
        self.complaints.append(text)

    def send(self, text: str) -> None:
        self.tab.fill("#text", text)
        self.tab.press("#text", "Enter")

    def replies(self) -> list[str]:
        """Once nothing streams any more."""
        self.tab.wait_for_selector("#send:visible")
        return [each.inner_text() for each in self.tab.query_selector_all(".reply .said")]

    def users(self) -> list[str]:
        return [each.inner_text() for each in self.tab.query_selector_all(".user .said")]


@pytest.fixture(scope="module")
def tab(browser: Any, served: tuple[FakeApi, str]) -> Iterator[Page]:
    """One for all tests: each of its own would take a process."""
    context = browser.new_context(viewport={"width": 1200, "height": 800}, permissions=["clipboard-write"])
    yield Page(context.new_page(), served[1])
    context.close()


@pytest.fixture
def shown(tab: Page, api: FakeApi) -> Page:
    """The page as it is at first."""
    tab.tab.evaluate("localStorage.clear(); sessionStorage.clear()")
    tab.tab.goto(tab.url)
    tab.complaints.clear()
    tab.asked.clear()
    return tab


@needs_chromium
def test_a_message_is_sent_and_its_reply_streams_in(shown: Page, api: FakeApi) -> None:
    api.say({"content": "The capital of "}, {"content": "Japan is **Tokyo**."})
    shown.send("What is the capital of Japan?")
    assert shown.replies() == ["The capital of Japan is Tokyo."]
    assert shown.users() == ["What is the capital of Japan?"]
    assert shown.tab.inner_text(".reply .said strong") == "Tokyo"
    note = shown.tab.inner_text(".reply .note")
    assert "12 tokens" in note and "tokens/s" in note and "31 of 40 prompt tokens cached" in note
    [body] = api.requests
    assert body["messages"] == [{"role": "user", "content": "What is the capital of Japan?"}]
    assert (body["model"], body["thinking"]) == ("deepseek-v4.1-flash", {"type": "disabled"})
    assert shown.complaints == []


@needs_chromium
def test_nothing_is_asked_of_anybody_else(shown: Page, api: FakeApi) -> None:
    api.say({"content": "![x](https://example.com/x.png) [y](https://example.com/)"})
    shown.send("Hi")
    shown.replies()
    assert all(url.startswith(shown.url) for url in shown.asked)
    assert shown.complaints == []


@needs_chromium
def test_what_a_model_writes_is_text(shown: Page, api: FakeApi) -> None:
    hostile = "<script>document.title='gone'</script><img src=x onerror=\"document.title='gone'\">"
    link = "[a](javascript:alert(1)) [b](data:text/html,x) [c](https://example.com/?q=<b>)"
    api.say({"reasoning_content": hostile}, {"content": f"{hostile}\n\n`{hostile}`\n\n{link}"})
    shown.send(hostile)
    reply = shown.replies()[0]
    assert reply.count(hostile) == 2 and "[a](javascript:alert(1))" in reply and "[b](data:" in reply
    assert shown.users() == [hostile]
    assert shown.tab.text_content(".thoughts") == hostile
    assert shown.tab.query_selector("#log script, #log img") is None
    links = [each.get_attribute("href") for each in shown.tab.query_selector_all("#log a")]
    assert links == ["https://example.com/?q=%3Cb%3E"]
    assert shown.tab.title() == "Shoal"
    assert shown.complaints == []


@needs_chromium
def test_thinking_is_folded_and_opens(shown: Page, api: FakeApi) -> None:
    api.say({"reasoning_content": "Japan is "}, {"reasoning_content": "in Asia."}, {"content": "Tokyo."})
    shown.tab.select_option("#effort", "number")
    shown.tab.fill("#effort-number", "42")
    shown.tab.press("#effort-number", "Tab")
    shown.send("Capital?")
    assert shown.replies() == ["Tokyo."]
    assert not shown.tab.is_visible(".thoughts")
    assert shown.tab.inner_text("summary").startswith("Thought for ")
    shown.tab.click("summary")
    assert shown.tab.inner_text(".thoughts") == "Japan is in Asia."
    assert (api.requests[0]["thinking"], api.requests[0]["reasoning_effort"]) == ({"type": "enabled"}, 42)
    # What was thought is not sent back.
    shown.send("More")
    shown.replies()
    assert api.requests[1]["messages"][1] == {"role": "assistant", "content": "Tokyo."}


@needs_chromium
def test_escape_stops_a_reply_and_keeps_what_was_said(shown: Page, api: FakeApi) -> None:
    api.say("prompt 20/40 cached 10", {"content": "Once upon"}, then="waits")
    shown.send("Tell a story")
    shown.tab.wait_for_selector("text=Once upon")
    shown.tab.keyboard.press("Escape")
    assert shown.replies() == ["Once upon"]
    assert shown.tab.inner_text(".reply .note").startswith("stopped · 1 token ")
    assert api.left.wait(10)
    assert shown.complaints == []


@needs_chromium
def test_a_long_prompt_shows_how_far_it_is(shown: Page, api: FakeApi) -> None:
    api.say("keep-alive", "prompt 2048/9000 cached 1024", then="waits")
    shown.send("Long")
    shown.tab.wait_for_selector("text=Reading the prompt: 2,048 of 9,000 tokens, 1,024 of them cached")
    shown.tab.click("#stop")
    assert shown.replies() == []
    # Nothing was said, so the question stands alone and can be asked again.
    assert shown.users() == ["Long"]
    assert "Stopped before anything was said." in shown.tab.inner_text(".calm")
    api.say({"content": "Now"})
    shown.tab.click(".calm button:has-text('Retry')")
    assert shown.replies() == ["Now"]


@needs_chromium
def test_retry_asks_the_same_again_in_place_of_the_reply(shown: Page, api: FakeApi) -> None:
    api.say({"content": "One"})
    shown.send("Hi")
    shown.replies()
    api.say({"content": "Two"})
    shown.tab.click(".reply button:has-text('Retry')")
    shown.tab.wait_for_selector("text=Two")
    assert shown.replies() == ["Two"]
    assert api.requests[0] == api.requests[1]


@needs_chromium
def test_an_earlier_message_is_changed_and_what_followed_is_gone(shown: Page, api: FakeApi) -> None:
    api.say({"content": "Fine"})
    for text in ("First", "Second"):
        shown.send(text)
        shown.replies()
    shown.tab.click(".user:first-child button:has-text('Edit')")
    shown.tab.keyboard.press("Escape")
    assert shown.users() == ["First", "Second"]
    shown.tab.click(".user:first-child button:has-text('Edit')")
    shown.tab.fill(".edit textarea", "Other")
    shown.tab.press(".edit textarea", "Enter")
    shown.tab.wait_for_selector("text=Other")
    assert (shown.replies(), shown.users()) == (["Fine"], ["Other"])
    assert api.requests[-1]["messages"] == [{"role": "user", "content": "Other"}]
    assert shown.complaints == []


@needs_chromium
def test_an_error_is_shown_with_its_hint_and_can_be_retried(shown: Page, api: FakeApi) -> None:
    api.fails = (429, {"message": "64 requests wait already\n\nhint: ask again in 2 s."})
    shown.send("Hi")
    shown.tab.wait_for_selector(".error")
    assert "64 requests wait already" in shown.tab.inner_text(".error")
    assert shown.tab.inner_text(".error .quiet") == "Ask again in 2 s."
    api.say({"content": "Now"})
    shown.tab.click(".error button:has-text('Retry')")
    assert shown.replies() == ["Now"]
    assert shown.tab.query_selector(".error") is None
    assert shown.users() == ["Hi"]


@needs_chromium
def test_a_reply_that_breaks_off_stays_and_says_so(shown: Page, api: FakeApi) -> None:
    api.say({"content": "Half"}, then="breaks")
    shown.send("Hi")
    shown.tab.wait_for_selector(".error")
    assert shown.replies() == ["Half"]
    assert "ended the reply before it was whole" in shown.tab.inner_text(".error")


@needs_chromium
def test_the_key_is_asked_for_and_kept_by_the_tab_only(shown: Page, api: FakeApi) -> None:
    api.key = "secret"
    api.say({"content": "In"})
    shown.send("Hi")
    shown.tab.wait_for_selector(".error")
    shown.tab.click(".error button:has-text('Enter the key')")
    shown.tab.fill("#key", "secret")
    shown.tab.click("#settings button:has-text('Done')")
    shown.tab.click(".error button:has-text('Retry')")
    assert shown.replies() == ["In"]
    assert "secret" not in shown.tab.url + shown.tab.evaluate("JSON.stringify(localStorage)")
    assert "secret" in shown.tab.evaluate("JSON.stringify(sessionStorage)")


@needs_chromium
def test_the_conversation_and_the_settings_outlive_the_page_until_cleared(shown: Page, api: FakeApi) -> None:
    api.say({"reasoning_content": "Hm"}, {"content": "Kept"})
    shown.tab.click("#open-settings")
    shown.tab.fill("#system", "Be brief.")
    shown.tab.select_option("#appearance", "dark")
    shown.tab.click("#settings button:has-text('Done')")
    shown.send("Hi")
    shown.replies()
    shown.tab.reload()
    assert (shown.replies(), shown.users()) == (["Kept"], ["Hi"])
    assert shown.tab.evaluate("document.documentElement.dataset.theme") == "dark"
    shown.send("More")
    shown.replies()
    assert api.requests[1]["messages"][0] == {"role": "system", "content": "Be brief."}
    shown.tab.click("#new")
    assert shown.users() == []
    shown.tab.click("#notice button")
    assert shown.users() == ["Hi", "More"]
    shown.tab.click("#new")
    shown.tab.reload()
    assert shown.users() == []
    shown.tab.evaluate("localStorage.setItem('shoal.conversation', '[{\"role\": 1}, 2, null]')")
    shown.tab.reload()
    assert shown.users() == [] and shown.complaints == []


MARKDOWN = """## A title

Some *words*, `code` and a [link](https://example.com/a_(b)).

1. one
   - inner
2. two

```python
print("<b>")
```

| a | b |
|---|---|
| 1 | 2 |

> said
> twice
"""


@needs_chromium
def test_light_markdown_has_its_shapes_and_code_can_be_copied(shown: Page, api: FakeApi) -> None:
    api.say(*({"content": character} for character in MARKDOWN))
    shown.send("Show")
    shown.replies()
    found = shown.tab.evaluate("document.querySelector('.reply .said').innerHTML")
    for shape in (
        "<h4>A title</h4>",
        "<em>words</em>",
        "<code>code</code>",
        'href="https://example.com/a_(b)"',
        '<ol start="1"><li>one<ul><li>inner</li></ul></li><li>two</li></ol>',
        '<code>print("&lt;b&gt;")</code></pre>',
        "<td>1</td><td>2</td>",
        "<blockquote><p>said\ntwice</p></blockquote>",
    ):
        assert shape in found
    shown.tab.click(".code button")
    shown.tab.wait_for_selector("text=Copied")
    assert shown.complaints == []


HARD = (
    "- " * 900 + "x",
    "> " * 900 + "x",
    "- " * 5000 + "x",
    "> " * 5000,
    " **a" * 120_000,
    "`a" * 60_000,
    "[" * 60_000,
    "|-" * 9000,
)


@needs_chromium
def test_text_that_is_hard_to_read_is_read_in_time(shown: Page, api: FakeApi) -> None:
    for number, text in enumerate(HARD):
        api.say({"content": f"{text}\n{text}"}, {"content": f"\n\nThe end {number}"})
        shown.send("Go")
        shown.tab.wait_for_selector(f"p:has-text('The end {number}')", timeout=10_000)
        shown.replies()
    # Deeper than people write it is text.
    assert shown.tab.query_selector("#log " + "li " * 8) is None
    assert shown.tab.query_selector("#log " + "blockquote " * 8) is None
    assert shown.complaints == []


@needs_chromium
@pytest.mark.parametrize(("name", "width", "scheme"), [("desktop", 1200, "light"), ("phone", 360, "dark")])
def test_it_fits_its_window(
    browser: Any, api: FakeApi, served: tuple[FakeApi, str], tmp_path: Path, name: str, width: int, scheme: str
) -> None:
    api.say({"reasoning_content": "Let me see."}, {"content": f"{MARKDOWN}\n{'word' * 60}"})
    context = browser.new_context(viewport={"width": width, "height": 740}, color_scheme=scheme)
    page = Page(context.new_page(), served[1])
    page.tab.screenshot(path=tmp_path / f"welcome-{name}.png")
    page.send("What is the capital of Japan, and how would you print it?")
    page.replies()
    page.tab.click("summary")
    page.tab.screenshot(path=tmp_path / f"chat-{name}.png")
    for element in ("document.documentElement", "document.getElementById('scroll')"):
        assert page.tab.evaluate(f"{element}.scrollWidth") <= width
    assert page.tab.is_visible("#send") and page.tab.is_visible("#effort")
    ground = page.tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(ground.removeprefix("rgb(").split(",")[0]) > 128) == (scheme == "light")
    context.close()


@needs_chromium
def test_the_server_itself_answers_its_page(browser: Any, live: "LiveServer") -> None:
    context = browser.new_context()
    page = Page(context.new_page(), f"{live.url}/")
    page.tab.click("#open-settings")
    page.tab.fill("#key", KEY)
    page.tab.fill("#temperature", "0")
    page.tab.click("#settings button:has-text('Done')")
    page.tab.wait_for_selector("#model:has-text('miniature')")
    page.tab.select_option("#effort", "low")
    page.send("What is the capital of Japan?")
    assert page.replies() == ["The capital of Japan is Tokyo."]
    assert "Asia" in page.tab.text_content(".thoughts")
    page.tab.select_option("#effort", "none")
    page.send("What is the capital of France?")
    assert page.replies()[1] == "The capital of France is Paris."
    # Before the key was given the page asked for the model's name.
    assert page.complaints == ["Failed to load resource: the server responded with a status of 401 (Unauthorized)"]
    context.close()


def test_every_answer_carries_the_policy_and_nothing_else_is_served(api: FakeApi) -> None:
    client = TestClient(api.app())
    for path in ("/", *(f"/page/{name}" for name in page.page_files())):
        answer = client.get(path)
        assert answer.status_code == 200
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        again = client.get(path, headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
    for path in ("/page/page.py", "/page/..%2fpage.py", "/page/", "/page/x.js"):
        assert client.get(path).status_code == 404


def test_the_page_has_no_inline_script_or_style_and_names_no_other_host() -> None:
    for name, file in page.page_files().items():
        text = file.content.decode()
        assert not any(word in text for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write"))
        others = [
            part
            for part in text.split("//")[1:]
            if name != "icon.svg" and text.count("http://") + text.count("https://")
        ]
        assert others == []
    html = page.page_files()["index.html"].content.decode()
    assert "style=" not in html and "onclick" not in html and "<style" not in html
