/** Usage of a session: tokens and cost by reply and by model, and the current content of the model's window. */

import { readStats, readView } from "../lib/api.js";
import { barChart, filledBar } from "../widgets/chart.js";
import { el, inside } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { oneLine } from "../lib/invisible.js";
import { clock, short, whole } from "../lib/time_format.js";
import { projectName } from "../session/session_head.js";
import { loadedView } from "./view.js";

const SERIES = [
  { name: "input", look: "s-input" },
  { name: "cached input", look: "s-cached" },
  { name: "output", look: "s-output" },
];
const ROLES = {
  user: "s-user",
  assistant: "s-output",
  "tool results": "s-tools",
  summary: "s-summary",
  system: "s-system",
  tool: "s-tools",
};
const MOST_BARS = 60;

export function usageView(session) {
  return loadedView("Usage", {
    session,
    read: (signal) => readView(session.id, "usage", {}, signal),
    draw: (found) =>
      el(
        "div.usage",
        {},
        tiles(found),
        contextView(found.context),
        seriesView(found.recent ?? []),
        modelsView(found.models ?? {}),
      ),
    empty: "",
  });
}

/** The usage of all sessions. */
export function statsView() {
  return loadedView("All usage", {
    read: (signal) => readStats(signal),
    draw: (found) =>
      el(
        "div.usage",
        {},
        el(
          "div.head-line",
          {},
          inside(
            "#/",
            { class: "button quiet back", "aria-label": "All sessions", title: "All sessions" },
            icon("back"),
          ),
          el("h1", {}, "All sessions"),
        ),
        found.counted && found.counted.sessions < found.counted.of && !found.damaged?.length
          ? el("p.note", {}, `${number(found.counted.sessions)} of ${number(found.counted.of)} sessions are counted so far.`)
          : null,
        tiles({
          total: found.total,
          turns: found.total.turns,
          replies: found.total.replies,
          sessions: found.total.sessions,
        }),
        daysView(found.days ?? {}),
        modelsView(found.models ?? {}),
        tableView("Projects", "project", found.projects ?? {}, (root) => (root === "-" ? "none" : projectName(root))),
      ),
    empty: "",
  });
}

const number = (value) => (value ?? 0).toLocaleString();

function costWords(spent) {
  const cost = `$${((spent.cost_micros ?? 0) / 1e6).toFixed((spent.cost_micros ?? 0) >= 1e6 ? 2 : 4)}`;
  if (!spent.unpriced) return cost;
  return spent.cost_micros ? `${cost} + ${spent.unpriced} unpriced` : "unknown";
}

function tiles({ total = {}, turns, replies, tool_calls: calls, sessions }) {
  const tile = (value, label) =>
    el("div.tile", {}, el(/[a-z]/.test(value) ? "b.words" : "b", {}, value), el("span", {}, label));
  return el(
    "div.tiles",
    {},
    sessions === undefined ? null : tile(number(sessions), "sessions"),
    tile(number(total.input_tokens), "input"),
    tile(number(total.cache_read_tokens), "cached"),
    tile(number(total.output_tokens), "output"),
    tile(costWords(total), "cost"),
    tile(number(turns), "turns"),
    calls === undefined ? tile(number(replies), "replies") : tile(number(calls), "tool calls"),
  );
}

function contextView(context) {
  if (!context) return null;
  const parts = [
    { name: "system prompt", value: context.system ?? 0, look: "s-system" },
    { name: "tools", value: context.tools ?? 0, look: "s-input" },
    ...Object.entries(context.by_role ?? {}).map(([role, counted]) => ({
      name: role,
      value: counted.tokens,
      look: ROLES[role] ?? "s-cached",
    })),
  ];
  const percent = Math.round((context.used / context.window) * 100);
  const told = context.window
    ? `about ${short(context.used)} of ${short(context.window)} tokens (${percent} %)`
    : `about ${short(context.used ?? 0)} tokens; the window's size is unknown`;
  return el(
    "section.card",
    {},
    el("h2", {}, "Context"),
    el("p.meaning", {}, told),
    filledBar(parts, context.window ?? 0, { name: "Context", mark: context.compacts_at }),
  );
}

function seriesView(series) {
  if (!series.length) return null;
  const newest = series.slice(-MOST_BARS);
  const bars = newest.map((one) => ({
    label: clock(one.at),
    title: [whole(one.at), oneLine(one.model ?? "", 60), spentWords(one)].join("\n"),
    values: valuesOf(one),
  }));
  const older = series.length - newest.length;
  return el(
    "section.card",
    {},
    el("h2", {}, "Reply by reply"),
    older ? el("p.meaning", {}, `the last ${MOST_BARS}; ${older} before`) : null,
    barChart(bars, SERIES, { name: "Tokens per reply" }),
  );
}

function daysView(days) {
  const found = Object.entries(days).slice(-MOST_BARS);
  if (!found.length) return null;
  const bars = found.map(([day, one]) => ({
    label: day.slice(5),
    title: [day, `${one.sessions} sessions, ${one.turns} turns`, spentWords(one)].join("\n"),
    values: valuesOf(one),
  }));
  return el("section.card", {}, el("h2", {}, "Day by day"), barChart(bars, SERIES, { name: "Tokens per day" }));
}

const spentWords = (one) =>
  `input ${number(one.input_tokens)}, cached ${number(one.cache_read_tokens)}, output ${number(one.output_tokens)}`;

function valuesOf(one) {
  const cached = Math.min(one.cache_read_tokens ?? 0, one.input_tokens ?? 0);
  return [(one.input_tokens ?? 0) - cached, cached, one.output_tokens ?? 0];
}

const modelsView = (models) => tableView("Models", "model", models, (name) => name);

function tableView(title, first, found, shown) {
  const rows = Object.entries(found).filter(([, spent]) => spent.input_tokens || spent.output_tokens);
  if (!rows.length) return null;
  const heads = [first, "input", "cached", "output", "cost"];
  return el(
    "section.card",
    {},
    el("h2", {}, title),
    el(
      "div.wide",
      { tabindex: "0", role: "region", "aria-label": title },
      el(
        "table.figures",
        {},
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            heads.map((head) => el("th", { scope: "col" }, head)),
          ),
        ),
        el(
          "tbody",
          {},
          rows.map(([name, spent]) =>
            el(
              "tr",
              {},
              el("th", { scope: "row", title: name }, oneLine(shown(name), 60)),
              [
                number(spent.input_tokens),
                number(spent.cache_read_tokens),
                number(spent.output_tokens),
                costWords(spent),
              ].map((cell) => el("td", {}, cell)),
            ),
          ),
        ),
      ),
    ),
  );
}
