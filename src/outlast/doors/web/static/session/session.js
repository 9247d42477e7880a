/** Model of one session: the state read from the API, updated from the stream. Drawing is elsewhere.
 *
 *  Listeners get `changed(what)`: "rows", "draft", "state" or "questions"; changes within one frame come together. */

import { act, readSession, readView } from "../lib/api.js";
import { Approvals } from "./approvals.js";
import { Draft } from "./draft.js";
import { tell } from "../lib/event_bus.js";
import { NOTED } from "../transcript/event_note.js";
import { Outbox } from "./outbox.js";
import { progressed } from "./progress.js";
import { Follower } from "./stream.js";
import { Transcript } from "../transcript/transcript.js";

const PAGE = 200;
const MOST = 1000; // rows that the server gives at once
/** After these what was shown is not what is shown now: the whole is read again. */
const TURNS_BACK = new Set(["Rewound", "RewindUndone", "HistoryCleared", "CompactionUndone", "EventRedacted"]);
const CHANGES_STATE = /^(Session|TurnStarted|TurnEnded|InputAdmitted|ModelChanged|PersonaChanged|RuntimeStateChanged)/;

export class Session {
  constructor(id, on) {
    this.id = id;
    this.on = on; // changed(Set), gone(error), movedTo(id), prepare(transcript)
    this.summary = null;
    this.detail = null;
    this.lastSeq = 0;
    this.transcript = new Transcript();
    this.draft = new Draft();
    this.asking = new Approvals(this);
    this.doing = "";
    this.connection = "connecting";
    this.showsArchived = false;
    this.abort = new AbortController();
    this.pending = new Set();
    this.outbox = new Outbox(id, { change: () => this.changed("rows"), stored: (ack) => this.stored(ack) });
  }

  get outgoing() {
    return this.outbox.unseen(this.transcript.rows);
  }

  /** The newest event that is known of, if any is. */
  get newest() {
    return this.summary ? Math.max(this.lastSeq, this.summary.last_seq) : undefined;
  }

  get questions() {
    return this.asking.questions;
  }

  get isRunning() {
    return this.summary?.activity === "running" || this.summary?.activity === "approval";
  }

  close() {
    this.abort.abort();
    this.follower?.stop();
    this.outbox.close();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.refreshing);
    this.asking.close();
  }

  changed(...what) {
    for (const one of what) this.pending.add(one);
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const told = this.pending;
      this.pending = new Set();
      this.on.changed(told);
    });
  }

  // --- reading

  /** Read it and follow it from there. */
  async open() {
    this.follower?.stop();
    const detail = await readSession(this.id, { limit: PAGE, all: this.showsArchived || undefined }, this.abort.signal);
    if (detail.session.id !== this.id) {
      this.on.movedTo(detail.session.id); // the place named it by its beginning
      return;
    }
    this.take(detail);
    const transcript = new Transcript();
    transcript.page(detail.messages);
    transcript.hasOlder = detail.messages.length >= PAGE;
    const [events] = await Promise.all([
      this.readNotes(transcript, detail.last_seq + 1),
      this.asking.read(),
      this.on.prepare(transcript),
    ]);
    this.findWaiting(transcript, events);
    this.transcript = transcript; // all of it at once
    this.draft = new Draft();
    this.takeDraft(detail.draft);
    this.lastSeq = detail.last_seq;
    this.outbox.seen(this.lastSeq);
    this.doing = this.questions.length ? "Waiting for your answer" : this.isRunning ? "Working" : "";
    this.changed("rows", "draft", "state", "questions");
    this.follow(detail.last_seq);
    this.asking.lookBelow();
  }

  take(detail) {
    const was = this.summary?.activity;
    this.detail = detail;
    this.summary = detail.session;
    if (detail.approvals && this.summary.activity) this.summary.activity = "approval";
    if (was !== this.summary.activity) this.changed("rows");
    this.changed("state");
    tell("session-changed", this.summary);
  }

  /** The same while the stream goes on: what it has told since then is newer. */
  takeLater(detail) {
    if (detail.last_seq >= this.lastSeq) {
      this.take(detail);
      return;
    }
    this.take({ ...detail, approvals: 0, session: { ...detail.session, activity: this.summary.activity } });
    this.refresh(500);
  }

  takeDraft(draft) {
    if (!draft) return;
    const parts = [];
    if (draft.reasoning) parts.push({ part: "reasoning", text: draft.reasoning });
    if (draft.text) parts.push({ part: "text", text: draft.text });
    for (const [part, text] of Object.entries(draft.calls ?? {})) parts.push({ part, text });
    this.draft.take({ attempt: draft.attempt, n: draft.n, parts });
  }

  /** What happened between the messages of the oldest page: the events that are notes. */
  async readNotes(transcript, before) {
    let after = transcript.hasOlder ? (transcript.oldest ?? 1) - 1 : 0;
    const events = [];
    try {
      for (let found = MOST; found === MOST; after = events.at(-1)?.seq) {
        const query = { after, before, kinds: NOTED.join(","), limit: MOST };
        const page = await readView(this.id, "events", query, this.abort.signal);
        events.push(...page);
        found = page.length;
      }
      for (const event of events) transcript.event(event, false);
    } catch (error) {
      if (error.name === "AbortError" || error.passing) throw error;
    }
    return events;
  }

  /** Inputs that no turn has read, while the list says that one waits: those behind the beginning of the last turn, or
   *  where none ever ran, as in a session that was imported, behind the last reply. */
  findWaiting(transcript, events) {
    const { pending_user_message: pending, active_stream_id: turn } = this.summary;
    if (pending === null) return;
    const read = new Set(events.flatMap((event) => event.body?.inputs ?? []));
    const begun = events.findLast((event) => event.kind === "TurnStarted");
    const replied = turn ? undefined : transcript.rows.findLast((row) => row.role === "assistant");
    const newest = (begun ?? replied)?.seq ?? 0;
    for (const row of transcript.rows)
      if (row.role === "user" && !row.note && !read.has(row.seq) && row.seq > newest) transcript.waiting.add(row.seq);
  }

  /** The page before what is here, or a larger one if the way is `far`. Who asks while it comes waits for the same. */
  older({ far = false } = {}) {
    if (!this.transcript.hasOlder || !this.transcript.oldest) return Promise.resolve();
    this.reading ??= this.readOlder(far ? MOST : PAGE).finally(() => (this.reading = null));
    return this.reading;
  }

  async readOlder(limit) {
    const { transcript } = this;
    const before = transcript.oldest;
    const query = { limit, before, all: this.showsArchived || undefined };
    const page = await readSession(this.id, query, this.abort.signal);
    if (transcript !== this.transcript) return; // everything was reloaded meanwhile
    transcript.page(page.messages);
    transcript.hasOlder = page.messages.length >= limit;
    if (page.messages.length) await this.readNotes(transcript, before);
    this.changed("rows");
  }

  /** The facts of a finished call, which a page of messages does not tell. */
  async facts(row) {
    const [event] = await readView(this.id, "events", { after: row.seq - 1, before: row.seq + 1 }, this.abort.signal);
    row.facts = event?.body?.facts ?? {};
    return row.facts;
  }

  /** The summary again, soon; whatever happened in between counts once. */
  refresh(after = 150) {
    clearTimeout(this.refreshing);
    this.refreshing = setTimeout(async () => {
      try {
        this.takeLater(await readSession(this.id, { limit: 1 }, this.abort.signal));
      } catch (error) {
        if (error.name !== "AbortError" && error.passing) this.refresh(1500);
      }
    }, after);
  }

  // --- following

  follow(cursor) {
    this.follower?.stop(); // another reading may have been under way
    this.follower = new Follower(this.id, cursor, {
      event: (event) => this.event(event),
      delta: (frame) => this.delta(frame),
      resync: () => this.again(),
      gone: () => this.on.gone(new Error("This session no longer exists.")),
      state: (state) => {
        if (state === "live" && this.connection !== "live") this.refresh(0);
        this.connection = state;
        this.changed("state");
      },
    }).start();
  }

  /** Reload everything: the current state cannot be updated by later events. */
  async again() {
    try {
      await this.open();
    } catch (error) {
      if (error.name !== "AbortError") setTimeout(() => this.again(), 2000);
    }
  }

  delta(frame) {
    this.draft.take(frame);
    const part = this.draft.parts.at(-1)?.part ?? "";
    this.doing = part === "reasoning" ? "Thinking" : part === "text" ? "Writing" : "Preparing a call";
    this.changed("draft");
    if (!this.draftShown) this.changed("rows");
    this.draftShown = true;
  }

  event(event) {
    if (event.seq <= this.lastSeq) return;
    this.lastSeq = event.seq;
    if (TURNS_BACK.has(event.kind)) {
      this.again();
      return;
    }
    this.transcript.event(event);
    progressed(this, event);
    this.outbox.seen(event.seq);
    this.changed("rows");
    if (CHANGES_STATE.test(event.kind)) this.refresh();
    this.asking.event(event);
  }

  set(activity, doing) {
    this.doing = doing;
    if (!this.summary || this.summary.activity === activity) return;
    this.summary = { ...this.summary, activity };
    this.changed("state");
    tell("session-changed", this.summary);
  }

  stored(ack) {
    if (ack.session_id !== this.id) this.on.movedTo(ack.session_id);
    else if (ack.seq <= this.lastSeq) this.outbox.seen(this.lastSeq);
    this.changed("rows");
  }

  // --- doing

  /** A verb of the API; what it changes comes through the stream. */
  async act(verb, body) {
    const answer = await act(this.id, verb, body);
    this.refresh();
    return answer;
  }
}
