// What the browser keeps: the conversation and choices until they are cleared, the key until the tab is closed.

const ROLES = new Set(["user", "assistant"]);

function read(store, name) {
  try { return JSON.parse(store().getItem(`shoal.${name}`)); } catch { return null; }
}

/** Whether it was kept; false where the browser is full or keeps nothing. */
function write(store, name, value) {
  try {
    if (value === null || value === "") store().removeItem(`shoal.${name}`);
    else store().setItem(`shoal.${name}`, JSON.stringify(value));
    return true;
  } catch { return false; }
}

// As functions: a browser may refuse the very name.
const lasting = () => localStorage;
const passing = () => sessionStorage;

/** Messages `{role, content, reasoning?, note?}`; of an older page's, or somebody's, only what is one. */
export function loadMessages() {
  const found = read(lasting, "conversation");
  if (!Array.isArray(found)) return [];
  return found.filter((each) => each && ROLES.has(each.role) && typeof each.content === "string").map((each) => ({
    role: each.role,
    content: each.content,
    ...(typeof each.reasoning === "string" ? { reasoning: each.reasoning } : {}),
    ...(typeof each.note === "string" ? { note: each.note } : {}),
    ...(typeof each.thought === "string" ? { thought: each.thought } : {}),
  }));
}

export const keepMessages = (messages) => write(lasting, "conversation", messages.length ? messages : null);

/** `system`, `effort` ("none", a name, "number"), `number`, `temperature` (null: the server's). */
export function loadChoices() {
  const found = read(lasting, "choices") ?? {};
  const effort = ["none", "low", "high", "max", "number"].includes(found.effort) ? found.effort : "none";
  const number = Number.isInteger(found.number) && found.number >= 1 && found.number <= 100 ? found.number : 75;
  const temperature = typeof found.temperature === "number" && found.temperature >= 0 ? found.temperature : null;
  return { system: typeof found.system === "string" ? found.system : "", effort, number, temperature };
}

export const keepChoices = (choices) => write(lasting, "choices", choices);

export const loadKey = () => { const key = read(passing, "key"); return typeof key === "string" ? key : ""; };

export const keepKey = (key) => write(passing, "key", key);

/** "light", "dark", or "" for the system's. theme.js reads it as it is, without JSON. */
export function keepTheme(theme) {
  try {
    if (theme) localStorage.setItem("shoal.theme", theme);
    else localStorage.removeItem("shoal.theme");
  } catch { /* kept for this page only */ }
}
