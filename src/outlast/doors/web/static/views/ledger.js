/** The ledger view: assumptions, acceptance anchors and decision boundaries, with their current status. */

import { readView } from "../lib/api.js";
import { el } from "../lib/dom.js";
import { oneLine, readable } from "../lib/invisible.js";
import { loadedView } from "./view.js";

const LISTS = [
  ["assumptions", "Assumptions", "What the model takes for granted"],
  ["acceptance_anchors", "Acceptance anchors", "What has to hold when it is done"],
  ["decision_boundaries", "Decision boundaries", "What is decided and stays decided"],
];
const BAD = new Set(["contradicted", "changed", "reopened"]);

export function ledgerView(session) {
  return loadedView("Ledger", {
    session,
    read: (signal) => readView(session.id, "ledger", {}, signal),
    draw: (found) => drawn(found.ledger ?? found),
    empty: "The ledger is empty: nothing was assumed, anchored or bounded yet.",
  });
}

function drawn(ledger) {
  const lists = LISTS.filter(([name]) => ledger?.[name]?.length);
  if (!lists.length) return null;
  return el(
    "div.ledger",
    {},
    lists.map(([name, title, meaning]) =>
      el(
        "section.card",
        {},
        el("h2", {}, title),
        el("p.meaning", {}, meaning),
        el("ul.items", {}, ledger[name].map(itemView)),
      ),
    ),
  );
}

function itemView(item) {
  const phases = [item.introduced_phase, item.updated_phase].filter(Boolean).join(" → ");
  return el(
    "li",
    {},
    el("span.chip", { class: BAD.has(item.status) ? "warn" : "" }, oneLine(item.status || "open", 30)),
    el("div", { dir: "auto" }, readable(item.text)),
    phases ? el("small", {}, oneLine(phases, 60)) : null,
    item.evidence?.length
      ? el(
          "ul.evidence",
          {},
          item.evidence.map((one) => el("li", { dir: "auto" }, readable(one))),
        )
      : null,
  );
}
