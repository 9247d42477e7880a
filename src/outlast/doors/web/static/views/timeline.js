/** The timeline view: every decision about the work, with its reason and its evidence. */

import { readView } from "../lib/api.js";
import { el } from "../lib/dom.js";
import { fold } from "../widgets/disclosure.js";
import { oneLine, readable } from "../lib/invisible.js";
import { clock, whole } from "../lib/time_format.js";
import { loadedView } from "./view.js";

const words = (code) => oneLine(String(code ?? "").replaceAll("_", " "), 60);

export function timelineView(session) {
  return loadedView("Timeline", {
    session,
    read: (signal) => readView(session.id, "timeline", {}, signal),
    draw: (found) => drawn(session, Array.isArray(found) ? found : (found.entries ?? found.timeline ?? [])),
    empty: "No decisions in this session yet. Routes, plans and checks of the work appear here.",
  });
}

function drawn(session, entries) {
  if (!entries.length) return null;
  return el(
    "ol.timeline",
    {},
    entries.map((entry, n) => el(`li.${toneOf(entry)}`, {}, entryView(entry, `${session.id}:timeline:${n}`))).reverse(),
  );
}

function toneOf(entry) {
  if (/fail/.test(entry.kind)) return "bad";
  if (/retry|reentry|continue|skip/.test(entry.kind)) return "warn";
  return /complete|finalize|exit/.test(entry.kind) ? "good" : "calm";
}

function entryView(entry, key) {
  const head = el(
    "span.timeline-head",
    {},
    el("span.timeline-kind", {}, words(entry.kind)),
    el("span.chip", {}, words(entry.mode)),
    el("span.time", { title: whole(entry.timestamp) }, clock(entry.timestamp)),
  );
  const body = el(
    "span.timeline-body",
    {},
    head,
    el("span.timeline-summary", { dir: "auto" }, oneLine(entry.summary, 300)),
    el("span.code-word", {}, words(entry.reason_code)),
  );
  const more = details(entry);
  return more.length ? fold(key, body, () => el("dl.arguments", {}, more)) : el("div.timeline-bare", {}, body);
}

function details(entry) {
  const shown = ["timestamp", "kind", "mode", "reason_code", "summary"];
  return Object.entries(entry)
    .filter(([name, value]) => !shown.includes(name) && value !== null && !(Array.isArray(value) && !value.length))
    .map(([name, value]) => [el("dt", {}, words(name)), el("dd", { dir: "auto" }, valueView(value))]);
}

function valueView(value) {
  if (Array.isArray(value))
    return el(
      "ul",
      {},
      value.map((one) => el("li", {}, valueView(one))),
    );
  if (typeof value === "object") {
    return readable(
      Object.entries(value)
        .filter(([, one]) => one !== null && one !== "")
        .map(([name, one]) => `${name.replaceAll("_", " ")}: ${typeof one === "object" ? JSON.stringify(one) : one}`)
        .join(" · "),
    );
  }
  return readable(typeof value === "number" ? String(Math.round(value * 100) / 100) : String(value));
}
