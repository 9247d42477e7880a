/** Draws the rows of the transcript. Each row is a named article, so that readers can move from one to the next. */

import { copyButton } from "../text/code_block.js";
import { el, inside } from "../lib/dom.js";
import { fold } from "../widgets/disclosure.js";
import { icon } from "../lib/icons.js";
import { readable } from "../lib/invisible.js";
import { markdown } from "../text/markdown.js";
import { clock, whole } from "../lib/time_format.js";
import { compactedWords } from "./event_note.js";
import { picture } from "./picture.js";
import { finishedCall, openCall } from "./tool_call.js";

/** The element of a row. `on`: fork(row), rewind(row), retry(), undoRewind(); `session` is a `Session`. */
export function messageView(row, session, on) {
  if (row.note) return noteView(row, on);
  if (row.isSummary) return summaryView(row, session);
  switch (row.role) {
    case "user":
      return userView(row, session, on);
    case "tool":
      return article(
        "tool",
        "Tool call",
        row,
        finishedCall(`${session.id}:${row.seq}`, row, session.transcript.calls.get(row.callId), (one) =>
          session.facts(one),
        ),
      );
    case "assistant":
      return replyView(row, session, on);
    default:
      return systemView(row, session);
  }
}

function article(kind, name, row, ...children) {
  const node = el(`article.row.${kind}`, { "aria-label": name, "data-seq": row.seq }, ...children);
  if (row.archived) node.classList.add("archived");
  return node;
}

const time = (row) => el("span.time", { title: whole(row.at) }, clock(row.at));

function attachments(row) {
  const found = row.parts.filter((part) => part.type === "image" || part.type === "file");
  if (!found.length) return null;
  return el(
    "div.attachments",
    {},
    found.map((part) =>
      part.type === "image" ? picture(part) : el("span.attached", {}, icon("file"), readable(part.name)),
    ),
  );
}

// --- the user

function userView(row, session, on) {
  const waits = session.transcript.waiting.has(row.seq);
  const state = row.withdrawn
    ? "taken back"
    : waits
      ? waitingWords(row, session)
      : row.delivery === "steer"
        ? "steered"
        : "";
  const bubble = el("div.bubble", {}, el("div.said", { dir: "auto" }, readable(row.content)), attachments(row));
  const foot = el(
    "div.row-foot",
    {},
    row.archived ? el("span.badge", {}, "archived") : actions(row, on),
    state ? el("span.badge", { class: waits ? "waits" : "" }, state) : null,
    time(row),
  );
  return article("user", "You", row, bubble, foot);
}

function waitingWords(row, session) {
  if (!session.isRunning) return "waiting for an answer";
  return row.delivery === "steer" ? "steers at the next step" : "queued";
}

function actions(row, on) {
  const button = (name, label, act) =>
    el(
      "button.quiet.small",
      { type: "button", title: label, "aria-label": label, on: { click: () => act(row) } },
      icon(name),
    );
  return el(
    "span.row-actions",
    {},
    copyButton(() => row.content, "Copy the message"),
    on.fork ? button("fork", "Fork from here", on.fork) : null,
    on.rewind ? button("rewind", "Rewind to before this message", on.rewind) : null,
  );
}

// --- the reply

function replyView(row, session, on) {
  const pieces = row.parts.map((part, n) => piece(part, `${session.id}:${row.seq}:${n}`, session)).filter(Boolean);
  const goesOn = row.parts.some((part) => part.type === "tool_call");
  const foot =
    row.content.trim() && !goesOn
      ? el(
          "div.row-foot",
          {},
          time(row),
          el(
            "span.row-actions",
            {},
            copyButton(() => row.content, "Copy the reply"),
            forkButton(row, on),
          ),
        )
      : null;
  if (!row.interrupted)
    return pieces.length || foot ? article("reply", "Reply", row, pieces, foot) : article("reply", "Reply", row);
  const why =
    row.superseded || row.archived
      ? "This reply broke off; the model was asked again"
      : "Interrupted: this reply broke off here";
  const mark = el("div.broke-off", {}, icon("warn"), why);
  if (!row.superseded) return article("reply", "Interrupted reply", row, pieces, mark);
  const line = el("span.note-line", {}, icon("warn"), why);
  return article(
    "reply",
    "Interrupted reply",
    row,
    fold(`${session.id}:${row.seq}:broken`, line, () => pieces, { className: "broken" }),
  );
}

function forkButton(row, on) {
  if (!on.fork) return null;
  const label = "Fork from here";
  return el(
    "button.quiet.small",
    { type: "button", title: label, "aria-label": label, on: { click: () => on.fork(row) } },
    icon("fork"),
  );
}

function piece(part, key, session) {
  switch (part.type) {
    case "text":
      return part.text.trim() ? markdown(part.text) : null;
    case "reasoning":
      return reasoningView(part, key);
    case "tool_call": {
      if (session.transcript.results.has(part.id)) return null; // it has its own row
      const isAsked = session.questions.some((question) => question.call_id === part.id);
      return openCall(
        key,
        { name: part.name, arguments: part.arguments ?? {}, raw: part.raw },
        { isRunning: session.isRunning, isAsked },
      );
    }
    case "image":
      return picture(part);
    default:
      return null;
  }
}

export function reasoningView(part, key) {
  if (part.redacted || !part.text) return el("div.thought", {}, "Thought, not shown by the provider");
  const words = part.text.trim().split(/\s+/u).length;
  const line = el("span.note-line", {}, icon("spark"), `Thought for ${words} ${words === 1 ? "word" : "words"}`);
  return fold(key, line, () => markdown(part.text), { className: "thought" });
}

// --- what is neither

function systemView(row, session) {
  const line = el("span.note-line", {}, icon("bolt"), "Outlast told the model");
  return article(
    "note",
    "Note",
    row,
    fold(`${session.id}:${row.seq}`, line, () => el("div.said", { dir: "auto" }, readable(row.content))),
  );
}

function summaryView(row, session) {
  const line = el("span.note-line", {}, icon("archive"), compactedWords(row));
  const view = fold(`${session.id}:${row.seq}`, line, () => markdown(row.content));
  return article("note", "Compaction", row, view);
}

function noteView(row, on) {
  const node = article("note", "Note", row);
  const line = el(`p.note-text.${row.tone}`, {}, row.tone === "calm" ? null : icon("warn"), el("span", {}, row.note));
  const button = (label, act) => el("button.quiet.small", { type: "button", on: { click: act } }, label);
  if (row.retry && on.retry) line.append(button("Retry", on.retry));
  if (row.undo && on.undoRewind) line.append(button("Undo", on.undoRewind));
  if (row.goesOn) line.append(inside(`#/s/${row.goesOn}`, {}, "Open it"));
  if (row.fork) line.append(inside(`#/s/${row.fork}`, {}, "Open that one"));
  node.append(line);
  return node;
}
