// Ties the page's controls to the conversation.

import { Chat, notice } from "./chat.js";
import { keepChoices, keepKey, keepTheme, loadChoices, loadKey, loadMessages } from "./kept.js";
import { modelName, ReplyError } from "./stream.js";

const at = (name) => document.getElementById(name);
const scroll = at("scroll");
const text = at("text");
const choices = loadChoices();
let model = "";
let key = loadKey();
let follows = true;

const chat = new Chat(at("log"), loadMessages(), {
  ask: () => ({ system: choices.system.trim(), body: body() }),
  key: () => key,
  changed,
  say,
});

function body() {
  const effort = choices.effort === "number" ? choices.number : choices.effort;
  const thinking = effort === "none"
    ? { thinking: { type: "disabled" } }
    : { thinking: { type: "enabled" }, reasoning_effort: effort };
  const temperature = choices.temperature === null ? {} : { temperature: choices.temperature };
  return { model: model || "default", ...thinking, ...temperature };
}

function changed(status = "") {
  at("status").textContent = status;
  at("send").hidden = chat?.isBusy ?? false;
  at("stop").hidden = !(chat?.isBusy ?? false);
  at("new").disabled = !chat?.messages.length;
  at("welcome").hidden = Boolean(chat?.messages.length);
  if (follows) scroll.scrollTop = scroll.scrollHeight;
}

function say(line, { spoken = false } = {}) {
  if (!spoken) notice(at("notice"), line);
  at("spoken").textContent = line;
}

async function nameModel() {
  try {
    model = await modelName(key);
    at("model").textContent = model;
  } catch (problem) {
    if (!(problem instanceof ReplyError)) throw problem;
    // Asking will say the same, where it stays.
    at("model").textContent = problem.status === 401 ? "a key is needed" : "";
  }
}

function resize() {
  text.style.height = "auto";
  text.style.height = `${Math.min(text.scrollHeight, innerHeight * 0.4)}px`;
}

function send(event) {
  event.preventDefault();
  const said = text.value;
  if (!said.trim() || chat.isBusy) return;
  text.value = "";
  resize();
  notice(at("notice"), "");
  follows = true;
  // It may have been loading when the page was opened.
  if (!model) nameModel();
  chat.send(said);
}

function onKey(event) {
  const isPlainEnter = event.key === "Enter" && !event.shiftKey && !event.isComposing;
  const area = event.target.closest?.("textarea");
  if (isPlainEnter && (area === text || area?.closest(".edit"))) {
    event.preventDefault();
    area.form.requestSubmit();
  } else if (event.key === "Escape" && !at("settings").open) {
    const form = event.target.closest?.(".edit");
    if (form) chat.cancelEdit(form);
    else chat.stop();
  }
}

async function copy(what, pressed) {
  try {
    await navigator.clipboard.writeText(what);
    pressed.textContent = "Copied";
  } catch {
    pressed.textContent = "No clipboard";
  }
  setTimeout(() => { pressed.textContent = "Copy"; }, 1500);
}

function onClick(event) {
  const pressed = event.target.closest("button");
  if (!pressed) return;
  const node = pressed.closest(".message");
  if (pressed.dataset.copies) copy(pressed.closest("figure").querySelector("code").textContent, pressed);
  const does = {
    copy: () => copy(chat.textOf(node), pressed),
    edit: () => chat.edit(node),
    retry: () => { follows = true; chat.retry(node); },
    settings: openSettings,
    "cancel-edit": () => chat.cancelEdit(node),
  };
  does[pressed.dataset.does]?.();
}

function startAnew() {
  const before = chat.clear();
  text.focus();
  if (before.length) {
    notice(at("notice"), "The conversation was cleared.", () => { chat.restore(before); notice(at("notice"), ""); });
  }
}

function showTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  keepTheme(theme);
}

function openSettings() {
  at("system").value = choices.system;
  at("key").value = key;
  at("temperature").value = choices.temperature ?? "";
  at("appearance").value = document.documentElement.dataset.theme ?? "";
  at("settings").showModal();
}

function closeSettings() {
  choices.system = at("system").value;
  const temperature = at("temperature");
  choices.temperature = temperature.value && temperature.validity.valid ? temperature.valueAsNumber : null;
  keepChoices(choices);
  showTheme(at("appearance").value);
  if (key !== at("key").value.trim()) {
    key = at("key").value.trim();
    keepKey(key);
    nameModel();
  }
}

function chooseEffort() {
  choices.effort = at("effort").value;
  const number = at("effort-number");
  number.hidden = choices.effort !== "number";
  if (number.validity.valid && number.value) choices.number = number.valueAsNumber;
  keepChoices(choices);
}

at("effort").value = choices.effort;
at("effort-number").value = choices.number;
chooseEffort();
changed();
resize();
nameModel();
text.focus();

at("composer").addEventListener("submit", send);
text.addEventListener("input", resize);
at("stop").addEventListener("click", () => { chat.stop(); text.focus(); });
at("new").addEventListener("click", startAnew);
at("effort").addEventListener("change", chooseEffort);
at("effort-number").addEventListener("change", chooseEffort);
at("open-settings").addEventListener("click", openSettings);
at("settings").addEventListener("close", closeSettings);
at("theme").addEventListener("click", () => {
  const isDark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
    (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  showTheme(isDark ? "light" : "dark");
});
at("log").addEventListener("click", onClick);
at("log").addEventListener("submit", (event) => {
  event.preventDefault();
  follows = true;
  chat.sayInstead(event.target, event.target.elements.text.value);
});
scroll.addEventListener("scroll", () => {
  follows = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
}, { passive: true });
addEventListener("keydown", onKey);
addEventListener("pagehide", () => { if (chat.isBusy) chat.keep(); });
