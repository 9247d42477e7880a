/** The pane of one session: its header, its transcript or another view, its open questions, and the composer. */

import { fork, rewind } from "./actions.js";
import { Banner } from "./banner.js";
import { Composer } from "./composer.js";
import { el, inside, replace } from "../lib/dom.js";
import { goTo, here } from "../lib/router.js";
import { Questions } from "./questions.js";
import { Session } from "./session.js";
import { SessionHead } from "./session_head.js";
import { trying } from "../widgets/toast.js";
import { TranscriptView } from "../transcript/transcript_view.js";
import { ledgerView } from "../views/ledger.js";
import { timelineView } from "../views/timeline.js";
import { treeView } from "../views/tree.js";
import { usageView } from "../views/usage.js";

const OTHERS = { timeline: timelineView, ledger: ledgerView, usage: usageView, tree: treeView };

export class SessionPane {
  constructor(place) {
    this.id = place.id;
    this.session = new Session(place.id, {
      changed: (what) => this.changed(what),
      gone: (error) => this.gone(error),
      movedTo: (id) => here().id === this.id && goTo(`#/s/${id}`),
      prepare: (transcript) => this.transcript.prepare(transcript),
    });
    const session = this.session;
    this.transcript = new TranscriptView(session, {
      fork: (row) => fork(session, row),
      rewind: (row) => this.rewind(row),
      retry: () => this.verb("retry"),
      undoRewind: () => trying(() => session.act("unrewind")),
      older: () => trying(() => session.older()),
      takeBack: (message) => {
        session.outbox.drop(message);
        this.composer.restore(message.content, message.attachments);
      },
    });
    this.banner = new Banner(session, { verb: (verb) => this.verb(verb) });
    this.questions = new Questions(session, {
      answered: () => session.asking.read().catch(() => {}),
      left: () => this.focus(),
    });
    this.composer = new Composer(place.id, {
      send: (text, how) => this.send(text, how),
      stop: () => this.verb("interrupt"),
    });
    this.head = new SessionHead(session, place.view, { toggleArchived: () => this.toggleArchived() });
    this.stage = el("div.stage");
    this.node = el(
      "section.pane",
      { "aria-label": "Session" },
      this.head.node,
      this.stage,
      el("div.dock", {}, this.banner.node, this.questions.node, this.composer.node),
    );
    this.go(place);
    this.opened = this.open(place);
  }

  async open(place) {
    try {
      await this.session.open();
      if (place.at) await this.reveal(place.at);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.passing) setTimeout(() => this.open(place), 1500);
      else this.gone(error);
    }
  }

  close() {
    this.session.close();
    this.transcript.close();
    this.view?.close?.();
  }

  /** Show another view of the same session. */
  go(place) {
    this.head.view(place.view);
    this.node.dataset.view = place.view;
    this.node.dataset.id = this.id;
    this.view?.close?.();
    this.view = null;
    if (place.view === "transcript") {
      replace(this.stage, this.transcript.node);
      if (place.at) this.opened?.then(() => trying(() => this.reveal(place.at)));
      return;
    }
    this.view = OTHERS[place.view](this.session);
    replace(this.stage, this.view.node);
  }

  async reveal(seq) {
    const { session } = this; // its transcript may be replaced during each await
    while (session.transcript.hasOlder && (session.transcript.oldest ?? 0) > seq) await session.older({ far: true });
    this.transcript.show();
    const next = session.transcript.rows.find((row) => row.seq >= seq)?.seq;
    if (!this.transcript.reveal(seq)) this.transcript.reveal(next);
  }

  changed(what) {
    if (what.has("rows")) this.transcript.show();
    else if (what.has("draft")) this.transcript.showDraft();
    if (what.has("state")) {
      this.head.show();
      this.banner.show();
      const running = this.session.isRunning;
      if (running !== this.composer.isRunning) this.transcript.refreshOpenCalls();
      this.composer.running(running);
      this.composer.closed(this.closedWords());
      document.title = `${this.session.summary?.title || "Untitled"} · Outlast`;
    }
    if (what.has("questions")) {
      this.questions.show();
      this.transcript.refreshOpenCalls();
    }
  }

  closedWords() {
    const { summary } = this.session;
    if (summary?.rotated_to) return "This session goes on in a new one";
    if (summary?.state === "ended") return "This session has ended";
    return "";
  }

  async verb(verb) {
    await trying(() => this.session.act(verb));
  }

  send(text, how) {
    this.session.outbox.add(text, { ...how, after: this.session.newest });
    this.transcript.list.toEnd();
    return true;
  }

  async rewind(row) {
    if (await rewind(this.session, row)) this.composer.restore(row.content);
  }

  async toggleArchived() {
    this.session.showsArchived = !this.session.showsArchived;
    await this.session.again();
  }

  gone(error) {
    this.session.close();
    replace(
      this.node,
      el(
        "div.nothing",
        {},
        el("h1", {}, "Not here"),
        el("p", {}, error.message),
        inside("#/", { class: "button" }, "All sessions"),
      ),
    );
  }

  focus() {
    if (!matchMedia("(pointer: coarse)").matches) this.composer.focus();
  }
}
