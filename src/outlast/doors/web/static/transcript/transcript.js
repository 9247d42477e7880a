/** Model of a transcript: rows by seq, built from pages of messages and from events, in any order of arrival.
 *
 *  A row is a message `{seq, role, parts, at, ...}`, or a note `{seq, note, ...}` that says what an event changed. */

import { noteOf } from "./event_note.js";
import { imageOf } from "./picture.js";

const PRUNED = "Old tool outputs are left out of the model's window; the log keeps them.";

export class Transcript {
  constructor() {
    this.bySeq = new Map();
    this.calls = new Map(); // call id -> {name, arguments, seq}
    this.results = new Map(); // call id -> row
    this.waiting = new Set(); // inputs that no turn has read yet
    this.hasOlder = true;
    this.turn = null; // {seq, at, lastCall} while one is open
    this.sorted = [];
    this.dirty = false;
  }

  get rows() {
    if (this.dirty) {
      this.sorted = [...this.bySeq.values()].sort((one, other) => one.seq - other.seq);
      this.dirty = false;
    }
    return this.sorted;
  }

  get oldest() {
    return this.rows[0]?.seq ?? null;
  }

  put(row) {
    const before = this.bySeq.get(row.seq);
    this.bySeq.set(row.seq, before ? { ...before, ...row } : row);
    this.dirty = true;
    for (const part of row.parts ?? []) {
      if (part.type === "tool_call")
        this.calls.set(part.id, { name: part.name, arguments: part.arguments ?? {}, raw: part.raw, seq: row.seq });
    }
    if (row.role === "tool" && row.callId) {
      const isNew = !this.results.has(row.callId);
      this.results.set(row.callId, row);
      if (isNew && this.calls.has(row.callId)) this.mark(this.calls.get(row.callId).seq, {}); // its look has changed
    }
    return row;
  }

  /** A page of messages from `GET /api/sessions/{id}`. */
  page(messages) {
    for (const message of messages) this.put(rowOf(message));
  }

  /** An event. A `live` one updates the waiting inputs and the activity; a past one only adds its rows.
   *  Returns the row that it is, if it is one. */
  event({ seq, kind, at, body: given }, live = true) {
    const body = given ?? {}; // it was redacted
    const row = messageOf(seq, kind, at, body) ?? noteOf(seq, kind, at, body, this);
    this.follow(seq, kind, at, body, live);
    if (row?.tells) this.dropBefore(seq);
    return row ? this.put(row) : null;
  }

  /** The end of a turn says why its last reply broke off; do not say it twice. */
  dropBefore(seq) {
    const last = this.rows.findLast((row) => row.seq < seq);
    if (!last?.brokeOff) return;
    this.bySeq.delete(last.seq);
    this.dirty = true;
  }

  follow(seq, kind, at, body, live) {
    switch (kind) {
      case "InputAdmitted":
        if (live) this.waiting.add(seq);
        break;
      case "TurnStarted":
        this.turn = { seq, at };
        this.read(body.inputs);
        break;
      case "InputPromoted":
      case "InputWithdrawn":
        this.read(body.inputs);
        if (kind === "InputWithdrawn") for (const one of body.inputs ?? []) this.mark(one, { withdrawn: true });
        break;
      case "ModelRequested":
        this.supersede(seq);
        break;
      case "TurnEnded":
        this.turn = null;
        this.read(body.answered);
        break;
      default:
    }
  }

  read(inputs) {
    for (const seq of inputs ?? []) {
      this.waiting.delete(seq);
      this.mark(seq, {});
    }
  }

  mark(seq, change) {
    const row = this.bySeq.get(seq);
    if (row) this.put({ ...row, ...change });
  }

  /** A retry: the replies of this turn that broke off are not the answer. */
  supersede(seq) {
    for (const row of this.rows) {
      if (row.interrupted && !row.archived && row.seq < seq && (!this.turn || row.seq > this.turn.seq)) {
        this.mark(row.seq, { archived: true, superseded: true });
      }
    }
  }
}

/** A row from a message of the API. */
function rowOf(message) {
  const row = {
    seq: message.seq,
    role: message.role,
    parts: message.parts ?? [{ type: "text", text: message.content }],
    content: message.content,
    at: message.ts,
    archived: message.archived,
    interrupted: message.interrupted,
    isSummary: message.is_summary,
    tokens: message.token_count,
  };
  if (message.role === "tool") {
    const result = row.parts.find((part) => part.type === "tool_result");
    row.callId = result?.call_id ?? message.call_id;
    row.name = message.name ?? result?.name;
    row.isError = message.is_error ?? result?.is_error ?? false;
    row.status = message.status;
    row.facts = message.facts; // if missing, they are requested when the call is unfolded
    row.output = result?.content ?? message.content;
  }
  return row;
}

/** A row from an event, if it is a message. */
function messageOf(seq, kind, at, body) {
  switch (kind) {
    case "InputAdmitted":
      return said(seq, at, "user", body.parts, { delivery: body.delivery ?? "queue" });
    case "MessageAppended":
      return said(seq, at, body.role, body.parts);
    case "AssistantReplied":
      return said(seq, at, "assistant", body.parts, { usage: body.usage, model: body.model });
    case "ReplyInterrupted":
      return body.parts?.length
        ? said(seq, at, "assistant", body.parts, { interrupted: true, reason: body.reason })
        : null;
    case "ToolCallFinished":
      return said(seq, at, "tool", body.parts ?? [], {
        callId: body.call_id,
        name: body.name,
        isError: body.is_error ?? false,
        status: body.status,
        facts: body.facts ?? {},
        output: textOf(body.parts),
      });
    case "Compacted":
      return said(seq, at, "system", [{ type: "text", text: body.summarised === false ? PRUNED : body.summary }], {
        isSummary: true,
        before: body.tokens_before,
        after: body.tokens_after,
      });
    default:
      return null;
  }
}

function said(seq, at, role, given, more = {}) {
  const parts = (given ?? []).map((part) =>
    part.type === "image" ? imageOf(part) : { ...part, text: plainText(part.text) },
  );
  return {
    seq,
    role,
    parts,
    content: textOf(parts),
    at,
    archived: false,
    interrupted: false,
    isSummary: false,
    ...more,
  };
}

/** A text of the log; the log keeps invalid Unicode as bytes. */
export function plainText(text) {
  if (typeof text !== "object" || text === null) return text;
  const bytes = Uint8Array.from(atob(text.$b64 ?? ""), (character) => character.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}

export function textOf(parts) {
  return (parts ?? [])
    .filter((part) => part.type === "text")
    .map((part) => plainText(part.text))
    .join("");
}
