// One message on the page: what was said, thoughts folded above it, what can be done with it below.

import { element } from "./inline.js";
import { Markdown } from "./markdown.js";

const button = (name, action) => {
  const made = element("button", [name], { type: "button", className: "plain" });
  made.dataset.does = action;
  return made;
};

const row = (...children) => element("div", children, { className: "actions" });

/** What the user said; `actions` may be left out while nothing can be changed. */
export function userMessage(message) {
  const text = element("div", [message.content], { className: "said" });
  return element("article", [text, row(button("Copy", "copy"), button("Edit", "edit"))], {
    className: "message user", ariaLabel: "You",
  });
}

/** The same as a form, in place. */
export function editForm(message) {
  const text = element("textarea", [], { name: "text", value: message.content, ariaLabel: "Edit the message" });
  text.rows = Math.min(12, message.content.split("\n").length + 1);
  const buttons = row(button("Cancel", "cancel-edit"), element("button", ["Send"], { className: "act" }));
  const form = element("form", [text, buttons], { className: "message user edit" });
  queueMicrotask(() => { text.focus(); text.setSelectionRange(text.value.length, text.value.length); });
  return form;
}

/** What went wrong, what can be done, and a button that tries again; calm where the user wanted it so. */
export function errorMessage(problem, { isCalm = false } = {}) {
  const children = [element("p", [problem.message], { className: "what" })];
  if (problem.hint) children.push(element("p", [problem.hint], { className: "quiet" }));
  const buttons = [button("Retry", "retry")];
  if (problem.status === 401) buttons.push(button("Enter the key", "settings"));
  children.push(row(...buttons));
  const made = element("article", children, { className: `message error${isCalm ? " calm" : ""}` });
  if (!isCalm) made.setAttribute("role", "alert");
  return made;
}

/** A reply, whole or growing. */
export class ReplyView {
  constructor(message) {
    this.message = message;
    this.thoughts = element("div", [], { className: "thoughts" });
    this.summary = element("summary", ["Thinking…"]);
    this.thinking = element("details", [this.summary, this.thoughts], { hidden: true });
    this.progressText = element("span");
    this.bar = element("progress", [], { ariaLabel: "Prompt read" });
    this.progress = element("div", [this.progressText, this.bar], { className: "progress quiet", hidden: true });
    const said = element("div", [], { className: "said prose" });
    this.markdown = new Markdown(said);
    this.note = element("span", [], { className: "quiet note" });
    this.node = element("article", [this.thinking, this.progress, said, row(button("Copy", "copy"), button("Retry", "retry"), this.note)], {
      className: "message reply", ariaLabel: "Reply",
    });
    this.isAsked = false;
    this.show();
  }

  /** The prompt is being read: `null` when it is not any more. */
  showProgress(progress) {
    this.progress.hidden = progress === null;
    if (progress === null) return;
    const cached = progress.cached ? `, ${count(progress.cached)} of them cached` : "";
    this.progressText.textContent = progress.total
      ? `Reading the prompt: ${count(progress.done)} of ${count(progress.total)} tokens${cached}`
      : "Waiting for the model";
    if (progress.total) { this.bar.max = progress.total; this.bar.value = progress.done; }
  }

  /** Draw what the message holds by now; called often, drawn once a frame. */
  grow() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => { this.isAsked = false; this.show(); });
  }

  show() {
    const { reasoning = "", content, thought, note = "" } = this.message;
    this.thinking.hidden = !reasoning;
    if (this.thoughts.textContent !== reasoning) this.thoughts.textContent = reasoning;
    this.summary.textContent = thought ?? "Thinking…";
    this.markdown.show(content);
    this.note.textContent = note;
  }

  /** Whether it is still growing. */
  set isBusy(is) {
    this.node.setAttribute("aria-busy", String(is));
    this.node.classList.toggle("busy", is);
    if (!is) this.showProgress(null);
  }
}

export const count = (number) => number.toLocaleString("en");
