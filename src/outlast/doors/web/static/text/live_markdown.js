/** Markdown of a text that is still growing. Finished blocks are drawn once; only the last block is parsed again, one
 *  request at a time. Text that arrives during a request is appended to it as plain text. */

import { parseMarkdown } from "../lib/api.js";
import { el } from "../lib/dom.js";
import { drawn } from "./markdown.js";

const EVERY = 120; // milliseconds between two requests
const LONGEST = 60_000;
const GROWS = ".code, pre, pre code, p, ul, ol, li, blockquote, h1, h2, h3, h4, h5, h6";

export class LiveMarkdown {
  constructor() {
    this.node = el("div.prose.live", { dir: "auto" });
    this.tail = el("div.tail");
    this.rest = el("span.raw");
    this.tail.append(this.rest);
    this.node.append(this.tail);
    this.text = "";
    this.from = 0; // where the tail begins
    this.parsed = 0; // up to where the tail is drawn
    this.busy = false;
    this.closed = false;
    this.epoch = 0;
  }

  /** The text so far. A text that does not extend the last one starts over. */
  show(text) {
    if (!text.startsWith(this.text)) this.forget();
    this.text = text;
    this.showRest();
    this.parse();
  }

  forget() {
    this.epoch += 1;
    this.from = this.parsed = 0;
    this.tail.replaceChildren(this.rest);
    this.node.replaceChildren(this.tail);
  }

  close() {
    this.closed = true;
  }

  async parse() {
    if (this.busy || this.closed || this.parsed === this.text.length) return;
    this.busy = true;
    const { epoch, text, from } = this;
    const tail = text.slice(from);
    try {
      if (tail.length <= LONGEST) {
        const [blocks] = await parseMarkdown([tail]);
        if (epoch === this.epoch && !this.closed) this.take(tail, blocks, text.length);
      }
    } catch {
      // It stays as it is until the server is back: the next piece asks again.
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY));
    this.busy = false;
    this.parse();
  }

  /** All blocks but the last are final. */
  take(tail, blocks, upTo) {
    const last = blocks[blocks.length - 1];
    const done = blocks.slice(0, -1);
    for (const node of drawn(done)) this.node.insertBefore(node, this.tail);
    if (done.length) this.from += startOf(tail, last.line ?? 0);
    this.tail.replaceChildren(...(last ? drawn([last]) : []));
    endOf(this.tail).append(this.rest);
    this.parsed = upTo;
    this.showRest();
  }

  /** With the space before it, which is no part of what was drawn. */
  showRest() {
    const rest = this.text.slice(this.parsed);
    const space = /\s*$/.exec(this.text.slice(this.from, this.parsed))[0];
    this.rest.textContent = rest && space + rest;
  }
}

/** Where the next words will most likely stand. */
function endOf(node) {
  const last = node.lastElementChild;
  return last?.matches(GROWS) ? endOf(last) : node;
}

function startOf(text, line) {
  let at = 0;
  for (let n = 0; n < line; n++) {
    const end = text.indexOf("\n", at);
    if (end < 0) return at;
    at = end + 1;
  }
  return at;
}
