// The conversation: asking, stopping, changing what was said. It draws through the views and knows no server but `reply`.

import { element } from "./inline.js";
import { keepMessages } from "./kept.js";
import { count, editForm, errorMessage, ReplyView, userMessage } from "./message.js";
import { reply, ReplyError } from "./stream.js";

export class Chat {
  /** `ask` gives what a request holds besides the messages, `key` the key; `changed` is called when either may. */
  constructor(log, messages, { ask, key, changed, say }) {
    Object.assign(this, { log, messages, ask, key, changed, say });
    this.running = null;
    for (const message of messages) this.log.append(this.view(message));
  }

  get isBusy() { return this.running !== null; }

  view(message) {
    return message.role === "user" ? userMessage(message) : new ReplyView(message).node;
  }

  /** Say `text` and have it answered. */
  async send(text) {
    if (this.isBusy) return;
    this.dropErrors();
    const message = { role: "user", content: text };
    this.messages.push(message);
    this.log.append(this.view(message));
    await this.answer();
  }

  /** Another reply to the last question; of an earlier reply, to the question before it. */
  async retry(node) {
    if (this.isBusy) return;
    const at = this.indexOf(node);
    const isReply = at >= 0 && this.messages[at].role === "assistant";
    this.cut(isReply ? at : this.messages.findLastIndex((each) => each.role === "user") + 1);
    if (this.messages.length) await this.answer();
  }

  /** The message of `node` as a form. */
  edit(node) {
    const at = this.indexOf(node);
    if (!this.isBusy && at >= 0) node.replaceWith(editForm(this.messages[at]));
  }

  cancelEdit(form) {
    const view = this.view(this.messages[this.indexOf(form)]);
    form.replaceWith(view);
    view.querySelector("[data-does=edit]").focus();
  }

  /** What stands in `form` is said instead; all behind it is forgotten. */
  async sayInstead(form, text) {
    if (this.isBusy || !text.trim()) return;
    this.cut(this.indexOf(form));
    await this.send(text);
  }

  /** What was said, for the clipboard. */
  textOf(node) { return this.messages[this.indexOf(node)]?.content ?? ""; }

  stop() { this.running?.abort(); }

  /** Forget everything; what was forgotten. */
  clear() {
    this.stop();
    const before = this.messages.slice();
    this.cut(0);
    return before;
  }

  /** Go on with `messages` instead. */
  restore(messages) {
    this.cut(0);
    this.messages.push(...messages);
    for (const message of messages) this.log.append(this.view(message));
    this.keep();
  }

  keep() {
    const isKept = keepMessages(this.messages);
    if (!isKept) this.say("The browser has no room for this conversation: it lasts as long as this tab.");
    this.changed();
  }

  // Errors stand between the messages and are none.
  get nodes() { return [...this.log.children].filter((node) => !node.classList.contains("error")); }

  indexOf(node) { return this.nodes.indexOf(node); }

  cut(at) {
    this.dropErrors();
    for (const node of this.nodes.slice(at)) node.remove();
    this.messages.splice(at);
    this.keep();
  }

  dropErrors() { for (const node of this.log.querySelectorAll(".error")) node.remove(); }

  async answer() {
    const message = { role: "assistant", content: "", reasoning: "" };
    // A reply that was stopped while it thought says nothing, and what was thought is not sent.
    const asked = this.messages.filter(({ content }) => content).map(({ role, content }) => ({ role, content }));
    const view = new ReplyView(message);
    const mine = new AbortController();
    this.running = mine;
    this.messages.push(message);
    this.log.append(view.node);
    view.isBusy = true;
    view.showProgress({ done: 0, total: 0, cached: 0 });
    this.keep();
    let problem = null;
    try {
      await this.read(asked, message, view, mine.signal);
    } catch (caught) {
      problem = caught;
    }
    // Where the conversation was cleared meanwhile, this reply belongs to none.
    const isOurs = this.running === mine && this.messages.includes(message);
    if (this.running === mine) this.running = null;
    view.isBusy = false;
    if (isOurs) this.end(message, view, problem);
    this.changed();
  }

  async read(asked, message, view, signal) {
    const figures = { started: performance.now(), first: null, tokens: 0, usage: null };
    const choices = this.ask();
    const system = choices.system ? [{ role: "system", content: choices.system }] : [];
    for await (const part of reply({ ...choices.body, messages: [...system, ...asked] }, this.key(), signal)) {
      if (part.progress) view.showProgress(part.progress);
      if (part.usage) figures.usage = part.usage;
      if (part.finish === "length") message.cut = "cut at the most tokens";
      if (part.reasoning || part.content) take(part, message, figures, view);
      message.note = noteOf(figures);
      if (this.messages.includes(message)) this.changed(figures.first === null ? "" : `${tokens(figures)}${rateOf(figures)}`);
      view.grow();
    }
    if (message.cut) message.note += ` · ${message.cut}`;
  }

  end(message, view, problem) {
    const isStopped = problem?.name === "AbortError";
    if (isStopped) message.note = ["stopped", message.note].filter(Boolean).join(" · ");
    if (message.reasoning && !message.thought) message.thought = "Thinking, cut short";
    if (!message.content && !message.reasoning) this.cut(this.messages.indexOf(message));
    else { view.show(); this.keep(); }
    if (isStopped && !message.content && !message.reasoning) {
      this.log.append(errorMessage(new ReplyError("Stopped before anything was said."), { isCalm: true }));
    } else if (problem && !isStopped) {
      const known = problem instanceof ReplyError;
      if (!known) console.error(problem);
      this.log.append(errorMessage(known ? problem : new ReplyError("The page met something it does not know.", { hint: String(problem) })));
    }
    this.say(isStopped ? "Stopped." : problem ? "" : "The reply is complete.", { spoken: true });
  }
}

function take(part, message, figures, view) {
  figures.first ??= performance.now();
  figures.last = performance.now();
  figures.tokens += 1;
  view.showProgress(null);
  message.reasoning += part.reasoning ?? "";
  if (part.content) {
    if (message.reasoning && !message.thought) {
      message.thought = `Thought for ${Math.max(1, Math.round((performance.now() - figures.started) / 1000))} s`;
    }
    message.content += part.content;
  }
}

function rateOf({ first, last, tokens }) {
  const seconds = (last - first) / 1000;
  return tokens > 1 && seconds > 0 ? ` · ${((tokens - 1) / seconds).toFixed(1)} tokens/s` : "";
}

const tokens = (figures) => `${count(figures.tokens)} ${figures.tokens === 1 ? "token" : "tokens"}`;

/** Tokens, rate, time to the first one, and what the cache knew. */
function noteOf(figures) {
  if (figures.first === null) return "";
  const { usage } = figures;
  const known = usage?.completion_tokens ? { ...figures, tokens: usage.completion_tokens } : figures;
  let note = `${tokens(known)}${rateOf(known)} · first after ${((figures.first - figures.started) / 1000).toFixed(1)} s`;
  if (usage?.prompt_tokens) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    note += ` · ${count(cached)} of ${count(usage.prompt_tokens)} prompt tokens cached`;
  }
  return note;
}

/** A line of text and, with `undo`, a button. */
export function notice(place, text, undo = null) {
  place.replaceChildren(text);
  place.hidden = !text;
  if (undo) place.append(" ", element("button", ["Undo"], { type: "button", className: "plain", onclick: undo }));
}
