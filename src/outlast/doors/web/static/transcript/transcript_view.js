/** Draws the transcript: a virtual list of its rows, the days between them, and the reply in progress. */

import { DraftView } from "./draft_view.js";
import { el } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { prepare } from "../text/markdown_source.js";
import { messageView } from "./message.js";
import { dayOf, dayWords } from "../lib/time_format.js";
import { WindowedList } from "../lib/window.js";

const START = "start";
const DRAFT = "draft";
const END = "end";
const READY = 40; // rows whose Markdown is there before they are drawn

export class TranscriptView {
  /** `session`: id, transcript, draft, isRunning, doing, outgoing; `on` as in `messageView`, and older(). */
  constructor(session, on) {
    this.session = session;
    this.on = on;
    this.draftView = new DraftView();
    this.scroller = el("div.transcript", { tabindex: "0", role: "feed", "aria-label": "Transcript" });
    this.jump = el(
      "button.jump",
      { type: "button", hidden: true, "aria-label": "Go to the newest message" },
      icon("down"),
      "Newest",
    );
    this.jump.addEventListener("click", () => this.list.toEnd());
    this.node = el("div.transcript-pane", {}, this.scroller, this.jump);
    this.rows = new Map();
    this.days = new Map();
    this.list = new WindowedList(this.scroller, {
      draw: (key) => this.draw(key),
      guess: (key) => this.guess(key),
      holds: (key) => typeof key === "number",
      onTop: () => session.transcript.hasOlder && on.older(),
      onScroll: (list) => (this.jump.hidden = list.stick || !list.keys.length),
    });
  }

  close() {
    this.list.close();
    this.draftView.clear();
  }

  /** Show the current rows; redraw those that changed. */
  show() {
    const { transcript, draft, outgoing } = this.session;
    const keys = [START];
    const rows = new Map();
    let day = null;
    for (const row of transcript.rows) {
      if (this.isHidden(row)) continue;
      row.day ??= dayOf(row.at);
      if (row.day && row.day !== day) {
        day = row.day;
        keys.push(`day:${day}`);
        this.days.set(`day:${day}`, row.at);
      }
      keys.push(row.seq);
      rows.set(row.seq, row);
    }
    for (const message of outgoing) {
      keys.push(`out:${message.key}`);
      rows.set(`out:${message.key}`, message);
    }
    if (draft.isOpen || this.session.isRunning) keys.push(DRAFT);
    keys.push(END);
    const changed = [...rows]
      .filter(([key, row]) => this.rows.has(key) && this.rows.get(key) !== row)
      .map(([key]) => key);
    this.rows = rows;
    this.showDraft();
    this.list.show(keys);
    for (const key of changed) this.list.refresh(key);
    if (transcript.hasOlder !== this.hadOlder || !transcript.rows.length) this.list.refresh(START);
    this.hadOlder = transcript.hasOlder;
  }

  /** Rows that have nothing to show: a reply that is only calls which have rows of their own. */
  isHidden(row) {
    if (row.archived && !row.superseded && !this.session.showsArchived) return true;
    if (row.note || row.role !== "assistant" || row.interrupted) return false;
    return row.parts.every(
      (part) =>
        (part.type === "tool_call" && this.session.transcript.results.has(part.id)) ||
        (part.type === "text" && !part.text.trim()),
    );
  }

  /** The rows whose calls are open look different once the turn runs or does not. */
  refreshOpenCalls() {
    const { calls, results } = this.session.transcript;
    for (const seq of new Set([...calls].filter(([id]) => !results.has(id)).map(([, call]) => call.seq)))
      this.list.refresh(seq);
    for (const seq of this.session.transcript.waiting) this.list.refresh(seq);
  }

  showDraft() {
    this.draftView.show(this.session.draft, this.session.doing);
  }

  /** Parse its newest rows, so that what is seen first does not jump. */
  async prepare(transcript) {
    const newest = transcript.rows.slice(-READY);
    const texts = newest.filter((row) => row.role === "assistant").flatMap((row) => row.parts);
    await prepare(texts.filter((part) => part.type === "text").map((part) => part.text));
  }

  reveal(seq) {
    const found = this.list.reveal(seq);
    const node = this.list.node(seq);
    node?.classList.add("found");
    setTimeout(() => node?.classList.remove("found"), 2500);
    return found;
  }

  draw(key) {
    if (key === START) return this.startView();
    if (key === DRAFT) return this.draftView.node;
    if (key === END) return el("div.end");
    if (this.days.has(key)) return el("div.day", { role: "separator" }, el("span", {}, dayWords(this.days.get(key))));
    const row = this.rows.get(key);
    if (String(key).startsWith("out:")) return outgoingView(row, this.on);
    return messageView(row, this.session, this.on);
  }

  startView() {
    const { transcript } = this.session;
    if (transcript.hasOlder)
      return el(
        "div.start",
        { role: "status" },
        el("span.spinner", { "aria-hidden": "true" }),
        "Loading older messages",
      );
    return el("div.start", {}, transcript.rows.length > 50 ? "The beginning of this session" : "");
  }

  guess(key) {
    const row = this.rows.get(key);
    if (typeof row !== "object") return 44;
    if (row.note || row.role === "tool") return 34;
    const lines = (row.content ?? "")
      .split("\n")
      .reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / 80)), 0);
    return Math.min(2000, 60 + lines * 24);
  }
}

/** A message that is on its way: it is kept in this browser until the server has it. */
function outgoingView(message, on) {
  const failed = message.error;
  return el(
    "article.row.user.outgoing",
    { "aria-label": "You, not stored yet" },
    el(
      "div.bubble",
      {},
      el("div.said", { dir: "auto" }, message.content),
      message.attachments?.length ? el("span.attached", {}, `${message.attachments.length} attached`) : null,
    ),
    el(
      "div.row-foot",
      { role: "status" },
      el("span.badge", { class: failed ? "bad" : "waits" }, failed ?? "being sent"),
      failed ? el("button.quiet.small", { type: "button", on: { click: () => on.takeBack(message) } }, "Edit") : null,
    ),
  );
}
