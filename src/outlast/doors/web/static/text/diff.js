/** Draws a unified diff line by line, with the line numbers of both sides. */

import { el } from "../lib/dom.js";
import { exactNodes, readable } from "../lib/invisible.js";

const MOST = 600;

/** `exact` spells out every invisible character, for approvals. */
export function diffView(text, { exact = false } = {}) {
  const lines = text.split("\n");
  const rows = rowsOf(lines);
  const body = el("div.diff-body");
  const draw = (upTo) => body.append(...rows.slice(body.childElementCount, upTo).map((row) => lineOf(row, exact)));
  draw(exact ? rows.length : MOST);
  const view = el("div.diff", { tabindex: "0", role: "region", "aria-label": "Changes" }, body);
  if (rows.length <= MOST || exact) return view;
  const more = el("button.quiet.small", { type: "button" }, `Show all ${rows.length} lines`);
  more.addEventListener("click", () => {
    draw(rows.length);
    more.remove();
  });
  return el("div", {}, view, more);
}

function rowsOf(lines) {
  let old = 0;
  let now = 0;
  const rows = [];
  for (const [n, line] of lines.entries()) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (hunk) {
      [old, now] = [Number(hunk[1]), Number(hunk[2])];
      rows.push({ kind: "hunk", text: line });
    } else if (n < 2 && /^(---|\+\+\+)/.test(line)) {
      rows.push({ kind: "file", text: line });
    } else if (line.startsWith("+")) {
      rows.push({ kind: "added", now: now++, text: line });
    } else if (line.startsWith("-")) {
      rows.push({ kind: "removed", old: old++, text: line });
    } else if (line !== "" || n < lines.length - 1) {
      rows.push({ kind: "same", old: old ? old++ : "", now: now ? now++ : "", text: line });
    }
  }
  return rows;
}

function lineOf(row, exact) {
  const text = exact ? exactNodes(row.text) : readable(row.text);
  return el(
    `div.diff-line.${row.kind}`,
    {},
    el("span.number", { "aria-hidden": "true" }, row.old ?? ""),
    el("span.number", { "aria-hidden": "true" }, row.now ?? ""),
    el("span.diff-text", {}, text),
  );
}
