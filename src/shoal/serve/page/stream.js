// Asks the server and reads its stream as it comes: EventSource can neither post nor show comments.

/** Why there is no reply, or no whole one: a sentence, and what can be done. */
export class ReplyError extends Error {
  constructor(message, { hint = "", status = 0 } = {}) {
    super(message);
    this.hint = hint;
    this.status = status;
  }
}

const HINTS = {
  401: "Enter the server’s key in the settings.",
  413: "Start a new chat, or shorten the message.",
  429: "The server has enough to do. Try again in a while.",
  503: "The server is starting or stopping. Try again in a while.",
};
const PROGRESS = /^: ?prompt (\d+)\/(\d+)(?: cached (\d+))?/;

/** An error of the server as ours: its sentence, and the hint that stands behind it or beside it. */
function known(error, otherwise, status = 0) {
  const [message, hint] = (typeof error?.message === "string" ? error.message : otherwise).split("\n\nhint: ");
  // Of a key the server says how a program sends it.
  const said = (status === 401 ? HINTS[status] : error?.hint ?? hint ?? HINTS[status]) ?? "";
  return new ReplyError(message, { hint: said && said[0].toUpperCase() + said.slice(1), status });
}

function headers(key) {
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function ask(path, options) {
  try {
    return await fetch(new URL(path, document.baseURI), { cache: "no-store", ...options });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    if (/ISO-8859-1|ByteString|invalid/i.test(problem.message)) {
      throw new ReplyError("The key holds characters that no key has.", { hint: "Enter it again in the settings." });
    }
    throw new ReplyError("The server cannot be reached.", { hint: "Is it running, and on this address?" });
  }
}

/** The error of a response that is not 200, in the server’s own words. */
async function refusal(response) {
  const text = await response.text().catch(() => "");
  let error = {};
  try { error = JSON.parse(text).error ?? {}; } catch { /* not ours */ }
  const wait = Number(response.headers.get("Retry-After"));
  const found = known(error, `The server answered ${response.status}.`, response.status);
  if (response.status === 429 && wait) found.hint = `Try again in ${wait} s.`;
  return found;
}

/** The name of the model that answers. */
export async function modelName(key) {
  const response = await ask("v1/models", { headers: headers(key) });
  if (!response.ok) throw await refusal(response);
  const found = await response.json().catch(() => ({}));
  return String(found.data?.[0]?.id ?? "");
}

async function* linesOf(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const lines = (held + value).split("\n");
    held = lines.pop();
    for (const line of lines) yield line.endsWith("\r") ? line.slice(0, -1) : line;
  }
  if (held) yield held;
}

/**
 * The parts of a reply: {progress: {done, total, cached}}, {reasoning}, {content}, {usage}, {finish}.
 * Throws ReplyError, also behind parts that were good; AbortError when `signal` says so.
 */
export async function* reply(body, key, signal) {
  const asked = { ...body, stream: true, stream_options: { include_usage: true } };
  const options = { method: "POST", headers: headers(key), body: JSON.stringify(asked), signal };
  const response = await ask("v1/chat/completions", options);
  if (!response.ok) throw await refusal(response);
  try {
    for await (const line of linesOf(response.body)) {
      const progress = PROGRESS.exec(line);
      if (progress) {
        yield { progress: { done: +progress[1], total: +progress[2], cached: +(progress[3] ?? 0) } };
      } else if (line.startsWith("data:")) {
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        yield* parts(data);
      }
    }
  } catch (problem) {
    if (problem instanceof ReplyError || problem.name === "AbortError") throw problem;
    throw new ReplyError("The connection broke before the reply was whole.", { hint: "Retry asks again." });
  }
  throw new ReplyError("The server ended the reply before it was whole.", { hint: "Retry asks again." });
}

function* parts(data) {
  let chunk;
  try { chunk = JSON.parse(data); } catch { throw new ReplyError("The server sent what is no JSON."); }
  if (chunk?.error) throw known(chunk.error, "The server broke off.");
  const choice = chunk?.choices?.[0];
  const delta = choice?.delta;
  if (typeof delta?.reasoning_content === "string" && delta.reasoning_content) yield { reasoning: delta.reasoning_content };
  if (typeof delta?.content === "string" && delta.content) yield { content: delta.content };
  if (choice?.finish_reason) yield { finish: choice.finish_reason };
  if (chunk?.usage) yield { usage: chunk.usage };
}
