/** The message input. Typed text survives a reload; Enter sends, Shift+Enter begins a new line.
 *
 *  While a turn runs, a message is queued after it, steers it, or interrupts it; Ctrl+Enter steers at once. */

import { Attachments } from "./attachments.js";
import { el } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { keep, kept } from "../lib/storage.js";

const WAYS = [
  ["queue", "Queue", "is read after the running turn"],
  ["steer", "Steer", "is read by the running turn at its next step"],
  ["interrupt", "Interrupt", "stops the running turn and is read then"],
];

export class Composer {
  /** `on`: send(text, {delivery, attachments}), which may be a promise of whether it was taken; stop(). */
  constructor(sessionId, on, { placeholder = "Ask, or describe the task", extra = null } = {}) {
    this.name = `draft.${sessionId}`;
    this.on = on;
    this.isRunning = false;
    this.text = el("textarea", {
      id: "composer",
      rows: "1",
      placeholder,
      "aria-label": "Message",
      enterkeyhint: "send",
      spellcheck: "true",
    });
    this.text.value = kept(this.name, "");
    this.attachments = new Attachments(() => this.changed());
    this.way = el("select.way", { "aria-label": "How the message reaches the running turn" });
    for (const [value, label, title] of WAYS)
      this.way.append(el("option", { value, title, selected: value === kept("way", "queue") }, label));
    this.sendButton = el(
      "button.primary.round",
      { type: "submit", "aria-label": "Send", title: "Send (Enter)" },
      icon("send"),
    );
    this.stopButton = el(
      "button.round.stop",
      { type: "button", "aria-label": "Stop", title: "Stop the turn", hidden: true },
      icon("stop"),
    );
    this.hint = el("span.hint");
    this.node = el(
      "form.composer",
      { "aria-label": "Write a message" },
      this.attachments.node,
      this.text,
      extra,
      el(
        "div.composer-foot",
        {},
        this.attachments.button,
        this.attachments.input,
        this.hint,
        this.way,
        this.stopButton,
        this.sendButton,
      ),
    );
    this.listen();
    this.running(false);
    this.changed();
  }

  listen() {
    this.text.addEventListener("input", () => this.changed());
    this.text.addEventListener("keydown", (event) => this.key(event));
    this.text.addEventListener(
      "paste",
      (event) => event.clipboardData?.files.length && this.files(event, event.clipboardData.files),
    );
    this.node.addEventListener("dragover", (event) => event.preventDefault());
    this.node.addEventListener(
      "drop",
      (event) => event.dataTransfer?.files.length && this.files(event, event.dataTransfer.files),
    );
    this.way.addEventListener("change", () => keep("way", this.way.value));
    this.stopButton.addEventListener("click", () => this.on.stop());
    this.node.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
  }

  files(event, files) {
    event.preventDefault();
    this.attachments.take(files);
  }

  key(event) {
    if (event.key !== "Enter" || event.isComposing || event.shiftKey || event.altKey) return;
    const wantsLine = matchMedia("(pointer: coarse)").matches && !event.ctrlKey && !event.metaKey;
    if (wantsLine) return; // a phone has a button for sending, and no Shift+Enter
    event.preventDefault();
    this.send(event.ctrlKey || event.metaKey ? "steer" : undefined);
  }

  changed() {
    keep(this.name, this.text.value);
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight, Math.round(innerHeight * 0.4))}px`;
    this.sendButton.disabled = !this.text.value.trim();
  }

  async send(way) {
    const content = this.text.value;
    if (!content.trim() || this.sending) return;
    const delivery = this.isRunning ? (way ?? this.way.value) : "queue";
    this.sending = true;
    try {
      if ((await this.on.send(content, { delivery, attachments: this.attachments.items })) === false) return;
      if (this.text.value === content) this.text.value = "";
      this.attachments.clear();
      this.changed();
    } finally {
      this.sending = false;
    }
  }

  /** Put a message back for editing, before the current text. */
  restore(text, attachments = []) {
    this.text.value = this.text.value ? `${text}\n\n${this.text.value}` : text;
    this.attachments.restore(attachments);
    this.text.focus();
  }

  running(isRunning) {
    this.isRunning = isRunning;
    this.way.hidden = !isRunning;
    this.stopButton.hidden = !isRunning;
    this.hint.textContent = isRunning ? "Ctrl+Enter steers" : "Enter sends · Shift+Enter for a new line";
  }

  closed(why) {
    this.text.disabled = Boolean(why);
    this.text.placeholder = why || "Ask, or describe the task";
    this.attachments.button.disabled = Boolean(why);
    this.sendButton.disabled = Boolean(why) || !this.text.value.trim();
  }

  focus() {
    this.text.focus({ preventScroll: true });
  }
}
