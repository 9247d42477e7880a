/** The header of a session: its title, its model and settings, its activity, its views and its menu. */

import { rename, sessionMenu } from "./actions.js";
import { el, inside, replace } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { oneLine } from "../lib/invisible.js";
import { menuButton } from "../widgets/menu.js";
import { short } from "../lib/time_format.js";
import { VIEWS } from "../lib/router.js";

const NAMES = { transcript: "Transcript", timeline: "Timeline", ledger: "Ledger", usage: "Usage", tree: "Tree" };
const WORDS = {
  running: ["running", "Running"],
  approval: ["approval", "Needs your answer"],
  interrupted: ["interrupted", "Interrupted"],
  waiting: ["waiting", "Waiting"],
};

/** A dot and a word for the activity of a session; nothing if it is idle. */
export function activityMark(activity, { bare = false } = {}) {
  const found = WORDS[activity];
  if (!found) return null;
  const [kind, words] = found;
  return bare
    ? el(`span.dot.${kind}`, { role: "img", "aria-label": words, title: words })
    : el(`span.activity.${kind}`, {}, el(`span.dot.${kind}`, { "aria-hidden": "true" }), words);
}

export class SessionHead {
  constructor(session, view, on) {
    this.session = session;
    this.on = on;
    this.title = el("h1.title", { dir: "auto" });
    this.rename = el("button.quiet.small", { type: "button", title: "Rename", "aria-label": "Rename" }, icon("pencil"));
    this.rename.addEventListener("click", () => rename(session));
    this.facts = el("p.facts");
    this.state = el("span.head-state", { role: "status" });
    const more = el(
      "button.quiet.tool-button",
      { type: "button", title: "Actions", "aria-label": "Actions" },
      icon("more", "bold"),
    );
    menuButton(more, () => sessionMenu(session, on), "Actions");
    const back = inside(
      "#/",
      { class: "button quiet back", "aria-label": "All sessions", title: "All sessions" },
      icon("back"),
    );
    this.tabs = VIEWS.map((name) => {
      const place = name === "transcript" ? `#/s/${session.id}` : `#/s/${session.id}/${name}`;
      return inside(place, { "data-view": name }, NAMES[name]);
    });
    this.node = el(
      "header.head",
      {},
      el(
        "div.head-line",
        {},
        back,
        el("div.head-words", {}, el("div.title-line", {}, this.title, this.rename), this.facts),
        this.state,
        el("span.menu-place", {}, more),
      ),
      el("nav.tabs", { "aria-label": "Views of this session" }, this.tabs),
    );
    this.view(view);
  }

  view(current) {
    for (const tab of this.tabs) {
      if (tab.dataset.view === current) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
  }

  show() {
    const { summary } = this.session;
    if (!summary) return;
    this.title.textContent = oneLine(summary.title || "Untitled", 200);
    const facts = [
      summary.model ? oneLine(summary.model, 60) : null,
      summary.persona && summary.persona !== "default-interactive" ? oneLine(summary.persona, 40) : null,
      summary.project_root ? oneLine(projectName(summary.project_root), 40) : null,
      summary.plan_mode ? "plan mode" : null,
      `${short(summary.total_input_tokens + summary.total_output_tokens)} tokens`,
      summary.imported ? "imported" : null,
    ].filter(Boolean);
    replace(
      this.facts,
      facts.map((fact) => el("span", { title: fact }, fact)),
    );
    replace(this.state, activityMark(summary.activity));
  }
}

export function projectName(root) {
  return root.split("/").filter(Boolean).at(-1) ?? root;
}
