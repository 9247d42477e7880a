/** Banner for a session that is interrupted, waiting, ended or in trouble, with the actions that resolve it. */

import { el, inside, replace } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { oneLine } from "../lib/invisible.js";
import { ago } from "../lib/time_format.js";

export class Banner {
  /** `on`: verb(name). */
  constructor(session, on) {
    this.session = session;
    this.on = on;
    this.node = el("div.banner", { role: "status", hidden: true });
    this.told = "";
  }

  show() {
    const found = this.found();
    this.node.hidden = !found;
    if (!found) {
      this.told = "";
      this.node.replaceChildren();
      return;
    }
    const { tone, words, more, verbs = [], link } = found;
    const told = JSON.stringify([tone, words, more, verbs, link]);
    if (told === this.told) return;
    this.told = told;
    this.node.className = `banner ${tone}`;
    replace(
      this.node,
      icon(tone === "calm" ? "hand" : "warn"),
      el("div.banner-words", {}, el("strong", {}, words), more ? el("span", {}, more) : null),
      link ? inside(link[0], { class: "button" }, link[1]) : null,
      verbs.map(([verb, label, look]) =>
        el("button", { type: "button", class: look ?? "", on: { click: () => this.on.verb(verb) } }, label),
      ),
    );
  }

  found() {
    const { summary, detail, connection } = this.session;
    if (!summary) return null;
    const goOn = ["continue", "Continue", "primary"];
    const retry = ["retry", "Retry"];
    if (connection === "offline") {
      return {
        tone: "warn",
        words: "Not connected",
        more: "Your messages are kept, and sent when the server is back.",
      };
    }
    if (summary.rotated_to)
      return {
        tone: "calm",
        words: "This session goes on in a new one",
        link: [`#/s/${summary.rotated_to}`, "Open it"],
      };
    if (summary.state === "damaged")
      return { tone: "bad", words: "This session is damaged", more: "Run outlast verify to see what is wrong." };
    if (summary.state === "ended")
      return {
        tone: "calm",
        words: "This session has ended",
        more: "It can be read, forked and exported.",
        verbs: [["reopen", "Reopen"]],
      };
    if (summary.state === "archived")
      return { tone: "calm", words: "This session is archived", verbs: [["unarchive", "Unarchive"]] };
    if (summary.activity === "interrupted") {
      const words = sentence(detail?.interrupted ?? "interrupted");
      return { tone: "warn", words, more: "Nothing is lost. It goes on by itself, or now:", verbs: [goOn, retry] };
    }
    if (detail?.trouble)
      return {
        tone: "bad",
        words: "No model answers here",
        more: oneLine(detail.trouble, 400),
        verbs: [["continue", "Try again", "primary"]],
      };
    if (summary.activity === "waiting") {
      const text = oneLine(summary.pending_user_message ?? "", 90);
      const since = summary.pending_started_at ? ` · ${ago(summary.pending_started_at)}` : "";
      return { tone: "calm", words: "A message waits for an answer", more: `“${text}”${since}`, verbs: [goOn] };
    }
    return null;
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
