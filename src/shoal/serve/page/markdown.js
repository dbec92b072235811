// Light markdown to elements, block by block, so that a stream rebuilds only its last block.

import { element, inline } from "./inline.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)[^`]*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}>/;
// A paragraph may hold a line that begins with a year and a dot.
const FIRST_ITEM = /^ {0,3}([-*+]|1[.)])\s+\S/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

// What is deeper or longer than people write is shown as it is: a reply may be anything.
const MOST_DEPTH = 6;
const MOST_LINE = 2000;

/** Shows text that grows. */
export class Markdown {
  constructor(place, depth = 0) {
    this.place = place;
    this.depth = depth;
    this.shown = [];
  }

  /** Show `text`; blocks that are the same stay the nodes they are, with a reader's selection in them. */
  show(text) {
    const wanted = this.depth < MOST_DEPTH ? blocks(text) : [{ kind: "paragraph", lines: [text] }];
    let same = 0;
    while (same < wanted.length && same < this.shown.length && key(wanted[same]) === this.shown[same].key) same += 1;
    for (const gone of this.shown.splice(same)) gone.node.remove();
    for (const block of wanted.slice(same)) {
      const node = draw(block, this.depth + 1);
      this.place.append(node);
      this.shown.push({ key: key(block), node });
    }
  }
}

const key = (block) => `${block.kind}\n${block.lines.join("\n")}`;

/** `text` as blocks `{kind, lines, language?}`. */
function blocks(text) {
  const found = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length;) {
    const [block, next] = blockAt(lines, at);
    if (block) found.push(block);
    at = next;
  }
  return found;
}

function blockAt(lines, at) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  if (line.length > MOST_LINE) return [{ kind: "paragraph", lines: [line] }, at + 1];
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence);
  if (HEADING.test(line)) return [{ kind: "heading", lines: [line] }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule", lines: [line] }, at + 1];
  if (isTable(line, lines[at + 1])) return take("table", lines, at, (each) => each.includes("|"));
  if (QUOTE.test(line)) return take("quote", lines, at, (each) => each.trim() !== "");
  if (ITEM.test(line)) return take("list", lines, at, continuesList);
  return take("paragraph", lines, at, (each) => each.trim() !== "" && !starts(each));
}

function isTable(line, next = "") {
  return line.includes("|") && next.includes("-") && next.length < MOST_LINE && TABLE_RULE.test(next);
}

/** Whether a line ends a paragraph, beginning something else. */
function starts(line) {
  if (line.length > MOST_LINE) return true;
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || FIRST_ITEM.test(line);
}

function continuesList(line, before) {
  if (!line.trim()) return before.trim() !== "";
  if (line.length > MOST_LINE || RULE.test(line)) return false;
  return ITEM.test(line) || /^\s+\S/.test(line) || (before.trim() !== "" && !starts(line));
}

function take(kind, lines, at, belongs) {
  let end = at + 1;
  while (end < lines.length && belongs(lines[end], lines[end - 1])) end += 1;
  return [{ kind, lines: lines.slice(at, end) }, end];
}

function code(lines, at, fence) {
  const closing = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !closing.test(lines[end])) end += 1;
  return [{ kind: "code", lines: lines.slice(at + 1, end), language: fence[2] }, end + 1];
}

function draw(block, depth) {
  const { kind, lines } = block;
  if (kind === "code") return drawCode(lines.join("\n"), block.language);
  if (kind === "heading") {
    const [, marks, text] = HEADING.exec(lines[0]);
    // The page has the levels above.
    return element(`h${Math.min(6, marks.length + 2)}`, inline(text));
  }
  if (kind === "rule") return element("hr");
  if (kind === "quote") {
    const quote = element("blockquote");
    new Markdown(quote, depth).show(lines.map((line) => line.replace(/^ {0,3}> ?/, "")).join("\n"));
    return quote;
  }
  if (kind === "list") return drawList(lines, depth);
  if (kind === "table") return drawTable(lines);
  return element("p", inline(lines.join("\n")));
}

/** Code with its language and a button that copies it. */
function drawCode(text, language) {
  const copy = element("button", ["Copy"], { type: "button", className: "plain copy" });
  copy.dataset.copies = "code";
  const head = element("figcaption", [element("span", [language]), copy]);
  return element("figure", [head, element("pre", [element("code", [text])], { tabIndex: 0 })], { className: "code" });
}

/** Items of one level; what is further in is drawn as blocks of its own. */
function drawList(lines, depth) {
  const first = ITEM.exec(lines[0]);
  const isOrdered = /\d/.test(first[2]);
  const list = element(isOrdered ? "ol" : "ul", [], isOrdered ? { start: parseInt(first[2], 10) } : {});
  let inside = null;
  const close = () => {
    if (!inside) return;
    const item = element("li");
    new Markdown(item, depth).show(inside.join("\n"));
    // A single line is no paragraph of its own.
    if (item.firstChild?.nodeName === "P") item.firstChild.replaceWith(...item.firstChild.childNodes);
    list.append(item);
  };
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && item[1].length <= first[1].length + 1) { close(); inside = [item[3]]; } else inside.push(line.replace(/^\s{1,4}/, ""));
  }
  close();
  return list;
}

function drawTable(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  const row = (line, kind) => element("tr", cells(line).map((cell) => element(kind, inline(cell))));
  const body = element("tbody", lines.slice(2).map((line) => row(line, "td")));
  const table = element("table", [element("thead", [row(lines[0], "th")]), body]);
  return element("div", [table], { className: "table", tabIndex: 0 });
}
