// Words inside a line: code, strong, emphasis, links. Model text becomes text nodes, never markup.

const TOKEN = /(`+)([\s\S]*?[^`])\1(?!`)|\*\*(?=\S)([\s\S]*?\S)\*\*|(?<![\w*])\*(?=[^\s*])([^*\n]*?[^\s*])\*(?![\w*])|!?\[([^\]\n]*)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)|\\([!-/:-@[-`{-~])/;
const MOST_DEPTH = 4;
// A search for what closes may read all of the rest, again and again.
const MOST_CHARACTERS = 8000;

/** An element of this kind that holds `children`. */
export function element(kind, children = [], properties = {}) {
  const made = Object.assign(document.createElement(kind), properties);
  made.append(...children);
  return made;
}

/** Only addresses that a click cannot turn into a script. */
function link(text, address, depth) {
  let url;
  try { url = new URL(address); } catch { return null; }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return null;
  return element("a", inline(text, depth), {
    href: url.href, target: "_blank", rel: "noopener noreferrer nofollow", title: url.href,
  });
}

/** Nodes for a piece of markdown without blocks. */
export function inline(text, depth = 0) {
  const nodes = [];
  let rest = text;
  while (rest) {
    const match = depth < MOST_DEPTH && text.length <= MOST_CHARACTERS ? TOKEN.exec(rest) : null;
    if (!match) { nodes.push(document.createTextNode(rest)); break; }
    if (match.index) nodes.push(document.createTextNode(rest.slice(0, match.index)));
    nodes.push(token(match, depth + 1));
    rest = rest.slice(match.index + match[0].length);
  }
  return nodes;
}

function token(match, depth) {
  const [whole, , code, strong, emphasis, label, address, escaped] = match;
  if (code !== undefined) return element("code", [code.replace(/^ (.+) $/s, "$1")]);
  if (strong !== undefined) return element("strong", inline(strong, depth));
  if (emphasis !== undefined) return element("em", inline(emphasis, depth));
  if (escaped !== undefined) return document.createTextNode(escaped);
  return link(label || address, address, depth) ?? document.createTextNode(whole);
}
