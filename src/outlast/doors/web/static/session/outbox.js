/** Outbox: keeps each message in this browser until the server has stored it, and retries the post with the same key,
 *  so that the message arrives exactly once. */

import { postMessage } from "../lib/api.js";
import { keep, kept, keptNames } from "../lib/storage.js";
import { hear } from "../lib/event_bus.js";

const BACK_OFF = [500, 1000, 2000, 4000, 8000];

function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `web-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

const nameOf = (sessionId, key) => `outbox.${sessionId}.${key}`;

/** A message to be sent as soon as its session is open; what does not fit into storage is at least held here. */
const held = [];

/** `after`: the newest event that there was when it was written, where that is known. */
export function leave(sessionId, content, { delivery = "queue", attachments = [], after } = {}) {
  const message = { key: newKey(), at: Date.now(), content, delivery, attachments, after };
  if (!keep(nameOf(sessionId, message.key), message)) held.push({ sessionId, message });
  return message;
}

export class Outbox {
  /** `on`: change(), stored(ack). Messages that were not stored before a reload are sent again. */
  constructor(sessionId, on) {
    this.sessionId = sessionId;
    this.on = on;
    this.failures = 0;
    this.closed = false;
    this.messages = keptNames(nameOf(sessionId, ""))
      .map((name) => kept(name))
      .filter((message) => message?.key && typeof message.content === "string")
      .concat(held.filter((one) => one.sessionId === sessionId).map((one) => one.message))
      .sort((one, other) => one.at - other.at);
    this.unhear = [hear("reached", () => this.run()), hear("signed-in", () => this.run())];
    this.run();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    for (const stop of this.unhear) stop();
  }

  add(content, how) {
    this.messages.push(leave(this.sessionId, content, how));
    this.on.change();
    this.run();
  }

  /** Take a message back that was refused. */
  drop(message) {
    this.messages = this.messages.filter((one) => one !== message);
    this.forget(message);
    this.on.change();
  }

  mark({ key }, change) {
    this.messages = this.messages.map((one) => (one.key === key ? { ...one, ...change } : one));
  }

  forget(message) {
    keep(nameOf(this.sessionId, message.key), null);
    const at = held.findIndex((one) => one.message.key === message.key);
    if (at >= 0) held.splice(at, 1);
  }

  /** Those that the transcript, with these rows, does not show yet. */
  unseen(rows) {
    const taken = new Set();
    return this.messages.filter((message) => {
      const row = message.error ? undefined : rows.find((one) => !taken.has(one.seq) && isOf(message, one));
      if (row) taken.add(row.seq);
      return !row;
    });
  }

  /** The session has shown event `seq`: a message that is there need not be shown as being sent. */
  seen(seq) {
    const left = this.messages.filter((message) => !(message.seq && message.seq <= seq));
    if (left.length === this.messages.length) return;
    this.messages = left;
    this.on.change();
  }

  async run() {
    if (this.busy || this.closed) return;
    const next = this.messages.find((message) => !message.seq && !message.error);
    if (!next || Date.now() < (this.notBefore ?? 0)) return;
    this.busy = true;
    try {
      const { key, content, delivery, attachments } = next;
      const body = { content, key, delivery, ...(attachments.length ? { attachments } : {}) };
      const ack = await postMessage(this.sessionId, body);
      this.forget(next);
      this.mark(next, { seq: ack.seq });
      this.failures = 0;
      this.on.stored(ack);
    } catch (error) {
      if (error.passing) this.later();
      else this.mark(next, { error: error.message });
      this.on.change();
    } finally {
      this.busy = false;
    }
    if (!this.notBefore || Date.now() >= this.notBefore) this.run();
  }

  later() {
    const pause = BACK_OFF[Math.min(this.failures++, BACK_OFF.length - 1)];
    this.notBefore = Date.now() + pause;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.notBefore = 0;
      this.run();
    }, pause);
  }
}

/** Whether this row is that message. The event may arrive before the response to the post, the
 *  response may be lost, or the page may be reloaded: then the message is recognised by its text. */
function isOf(message, row) {
  if (message.seq) return row.seq === message.seq;
  return row.role === "user" && row.seq > (message.after ?? Infinity) && row.content === message.content;
}
