/** Draws the reply in progress: the end of its reasoning, its text as Markdown, the tool calls it prepares. */

import { el, replace } from "../lib/dom.js";
import { oneLine, readable } from "../lib/invisible.js";
import { LiveMarkdown } from "../text/live_markdown.js";

export class DraftView {
  constructor() {
    this.body = el("div.draft-body");
    this.state = el("div.draft-state", {}, el("span.spinner", { "aria-hidden": "true" }), el("span.draft-words"));
    this.node = el(
      "article.row.reply.draft",
      { "aria-label": "Reply, being written", "aria-busy": "true" },
      this.body,
      this.state,
    );
    this.pieces = [];
    this.attempt = 0;
  }

  /** Show the current draft; `doing` is the current activity. */
  show(draft, doing) {
    if (draft.attempt !== this.attempt) this.clear(draft.attempt);
    for (const [n, part] of draft.parts.entries()) this.piece(n, part);
    replace(this.state.querySelector(".draft-words"), doing);
  }

  clear(attempt = 0) {
    for (const one of this.pieces) one.live?.close();
    this.pieces = [];
    this.attempt = attempt;
    this.body.replaceChildren();
  }

  piece(n, part) {
    let one = this.pieces[n];
    if (!one || one.part !== part.part) {
      for (const later of this.pieces.splice(n)) later.node.remove();
      one = newPiece(part);
      this.pieces[n] = one;
      this.body.append(one.node);
    }
    one.show(part.text);
  }
}

function newPiece({ part }) {
  if (part === "text") {
    const live = new LiveMarkdown();
    return { part, live, node: live.node, show: (text) => live.show(text) };
  }
  if (part === "reasoning") {
    const text = el("div.thinking", { dir: "auto" });
    return { part, node: text, show: (all) => (text.textContent = readable(all.slice(-600))) };
  }
  const name = oneLine(part.split(":").slice(2).join(":") || "a tool", 40);
  const line = el("div.preparing", {}, `preparing ${name} …`);
  return { part, node: line, show: () => {} };
}
