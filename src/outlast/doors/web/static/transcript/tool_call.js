/** A tool call on one line: the action, its target and its outcome. The full details unfold below it. */

import { copyButton } from "../text/code_block.js";
import { diffView } from "../text/diff.js";
import { el, replace } from "../lib/dom.js";
import { fold } from "../widgets/disclosure.js";
import { icon } from "../lib/icons.js";
import { oneLine, readable } from "../lib/invisible.js";
import { seconds } from "../lib/time_format.js";
import { picture } from "./picture.js";

const SUBJECT = {
  read: "file_path",
  write: "file_path",
  edit: "file_path",
  glob: "pattern",
  search: "pattern",
  bash: "command",
  bash_output: "job_id",
  bash_kill: "job_id",
  web_fetch: "url",
  task: "prompt",
  ask_user: "question",
  enter_plan: "reason",
};
const ICONS = {
  read: "file",
  write: "pencil",
  edit: "pencil",
  glob: "search",
  search: "search",
  bash: "terminal",
  web_fetch: "globe",
  task: "branch",
  ask_user: "help",
  todo: "list",
  enter_plan: "list",
  exit_plan: "list",
};
const REFUSED = new Set(["blocked", "declined"]);
const NOT_RUN = new Set(["blocked", "declined", "malformed", "unknown_tool", "invalid_arguments"]);
const MOST_LINES = 400;

/** The target of a call in a few words: `npm test`, src/a.py. */
export function subjectOf(name, given) {
  if (name === "todo") return "";
  const subject = given?.[SUBJECT[name]] ?? Object.values(given ?? {}).find((value) => typeof value === "string") ?? "";
  return oneLine(subject, 140);
}

/** The outcome of a call in a few words. */
function resultWords(row) {
  const { output = "", status } = row;
  const facts = row.facts ?? {};
  if (NOT_RUN.has(status)) return oneLine(output.replace(/^Not executed: /, ""), 160);
  if (status === "cancelled" || status === "unknown") {
    return output.includes("unknown") ? "interrupted, outcome unknown" : "not executed: cancelled";
  }
  const lines = output.trim() ? output.trimEnd().split("\n") : [];
  if (row.isError) return facts.exit_code ? `exit code ${facts.exit_code}` : oneLine(lines.at(-1) ?? "failed", 120);
  if (facts.added !== undefined) return `+${facts.added} −${facts.removed}`;
  const count = output === "(no output)" ? 0 : lines.length;
  const took = typeof facts.seconds === "number" && facts.seconds >= 0.1 ? `, ${seconds(facts.seconds)}` : "";
  return count === 1 && !took ? oneLine(lines[0], 80) : `${count} ${count === 1 ? "line" : "lines"}${took}`;
}

/** A call without a result. */
export function openCall(key, call, { isRunning, isAsked }) {
  const spins = isRunning && !isAsked;
  const state = spins ? el("span.spinner", { role: "img", "aria-label": "running" }) : icon("hand");
  const words = isAsked ? "waits for your answer" : isRunning ? "running" : "not finished";
  return toolFold(key, call, state, words, () => argumentsView(call), isAsked ? "asked" : "");
}

/** A call with its result. */
export function finishedCall(key, row, call, lookUp) {
  const known = call ?? { name: row.name ?? "tool", arguments: {} };
  const tone = REFUSED.has(row.status) ? "warn" : row.isError ? "bad" : "good";
  const mark = el(
    `span.mark.${tone}`,
    { role: "img", "aria-label": row.isError ? "failed" : "done" },
    icon(row.isError ? "cross" : "check"),
  );
  const unfolded = toolFold(key, known, mark, resultWords(row), () => resultView(row, known, lookUp), tone);
  return known.name === "todo" && !row.isError ? el("div", {}, unfolded, todoView(known, row)) : unfolded;
}

function toolFold(key, call, mark, words, draw, tone = "") {
  const name = oneLine(call.name, 40);
  const subject = subjectOf(call.name, call.arguments);
  const line = el(
    "span.tool-line",
    {},
    mark,
    icon(ICONS[call.name] ?? "bolt", "dim"),
    el("span.tool-name", {}, name),
    el(`span.tool-subject${call.name === "bash" ? ".mono" : ""}`, { dir: "ltr" }, subject),
    el("span.tool-words", {}, words),
  );
  return fold(key, line, draw, { className: `tool ${tone}`, label: `${name} ${subject}: ${words}` });
}

/** The result of a call; missing facts (its diff) are requested now. */
function resultView(row, call, lookUp) {
  const place = el("div");
  const draw = (facts) => replace(place, resultPieces({ ...row, facts }, call));
  draw(row.facts ?? {});
  if (!row.facts) lookUp(row).then(draw, () => {});
  return place;
}

function resultPieces(row, call) {
  const diff = typeof row.facts?.diff === "string" && row.facts.diff ? row.facts.diff : null;
  const pictures = (row.parts ?? []).filter((part) => part.type === "image").map(picture);
  const shown = diff && !row.isError ? diffView(diff) : outputView(row.output ?? "");
  return [diff && !row.isError && call.name !== "bash" ? null : argumentsView(call), shown, ...pictures].filter(
    Boolean,
  );
}

function argumentsView(call) {
  const given = Object.entries(call.arguments ?? {});
  if (!given.length) return el("div.arguments.empty", {}, call.raw ? readable(call.raw) : "no arguments");
  return el(
    "dl.arguments",
    {},
    given.map(([name, value]) => [
      el("dt", {}, oneLine(name, 60)),
      el("dd.mono", { dir: "ltr" }, readable(typeof value === "string" ? value : JSON.stringify(value, null, 1))),
    ]),
  );
}

function outputView(text) {
  const lines = readable(text).split("\n");
  const pre = el(
    "pre.output",
    { tabindex: "0", role: "region", "aria-label": "Output", dir: "ltr" },
    lines.slice(0, MOST_LINES).join("\n"),
  );
  const block = el(
    "div.output-block",
    {},
    copyButton(() => text, "Copy the output"),
    pre,
  );
  if (lines.length > MOST_LINES) {
    const more = el("button.quiet.small", { type: "button" }, `Show all ${lines.length} lines`);
    more.addEventListener("click", () => {
      pre.textContent = lines.join("\n");
      more.remove();
    });
    block.append(more);
  }
  return block;
}

/** A todo list is shown unfolded, because users read it. */
function todoView(call, row) {
  const items = Array.isArray(call.arguments?.items) ? call.arguments.items : null;
  if (!items) return el("pre.output.todo", {}, readable(row.output ?? ""));
  return el(
    "ul.todo",
    {},
    items.map((item) => {
      const text = typeof item === "string" ? item : (item.content ?? item.text ?? item.title ?? JSON.stringify(item));
      const status =
        typeof item === "object" && item ? (item.status ?? (item.done ? "completed" : "pending")) : "pending";
      const done = ["completed", "done"].includes(status);
      const now = status === "in_progress";
      return el(
        `li${done ? ".done" : now ? ".now" : ""}`,
        {},
        icon(done ? "check" : now ? "play" : "stop"),
        readable(text),
      );
    }),
  );
}
