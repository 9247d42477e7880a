/** The sidebar: the session list with its search, its filters and its keyboard navigation. Only the rows near the
 *  viewport are in the document. */

import { el, inside, replace } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { oneLine } from "../lib/invisible.js";
import { hear } from "../lib/event_bus.js";
import { projectName } from "../session/session_head.js";
import { EVERY_STATE, SessionList } from "./session_list.js";
import { hitRow, sessionRow } from "./session_row.js";
import { themeButton } from "../widgets/theme.js";
import { WindowedList } from "../lib/window.js";

const EVERY = 3000;
const PATIENCE = 180; // milliseconds between the last key and the search
const NEAR_END = 600;
const SAID = "said";
const STATES = [
  ["active", "Active"],
  ["ended", "Ended"],
  ["archived", "Archived"],
  [EVERY_STATE, "All"],
];

export class Sidebar {
  constructor(onHelp) {
    this.current = null;
    this.drawn = new Map();
    this.sessions = new SessionList({ changed: (how) => this.show(how), said: (words) => this.say(words) });
    this.build(onHelp);
    this.list = new WindowedList(this.scroller, {
      draw: (key) => this.draw(key),
      guess: () => 58,
      follows: false,
      onScroll: (list) => this.nearEnd(list),
    });
    hear("session-changed", (summary) => this.sessions.learn(summary) && this.list.refresh(summary.id));
    hear("list-changed", () => this.sessions.load());
    hear("signed-in", () => this.sessions.load());
    document.addEventListener("visibilitychange", () => !document.hidden && this.sessions.poll());
    setInterval(() => !document.hidden && this.sessions.poll(), EVERY);
    this.sessions.load();
  }

  build(onHelp) {
    this.scroller = el("div.session-list", { tabindex: "-1", role: "navigation", "aria-label": "Session list" });
    this.status = el("p.list-status", { role: "status" });
    const begin = inside("#/", { class: "button primary small", title: "New session (n)" }, icon("plus"), "New");
    const usage = inside("#/stats", { class: "button quiet small" }, icon("chart"), "Usage");
    const help = { type: "button", title: "Keys and help (?)", "aria-label": "Keys and help", on: { click: onHelp } };
    const helpButton = el("button.quiet.tool-button", help, icon("help"));
    this.node = el(
      "aside.sidebar",
      { "aria-label": "Sessions" },
      el("div.brand", {}, inside("#/", { class: "wordmark" }, "Outlast"), begin),
      el("div.search", {}, icon("search"), this.searchField()),
      el("div.filters", {}, this.stateButtons(), this.projectField()),
      this.status,
      this.scroller,
      el("div.side-foot", {}, usage, el("span.grow"), helpButton, themeButton()),
    );
    this.showProjects();
  }

  searchField() {
    const placeholder = matchMedia("(pointer: coarse)").matches ? "Search everything" : "Search everything  ( / )";
    this.search = el("input", {
      type: "search",
      id: "search",
      placeholder,
      "aria-label": "Search sessions and messages",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.search.addEventListener("input", () => this.typed());
    return this.search;
  }

  stateButtons() {
    this.states = el("div.segments", { role: "group", "aria-label": "Which sessions" });
    for (const [state, label] of STATES) {
      const pressed = String(state === this.sessions.state);
      const button = el("button", { type: "button", "aria-pressed": pressed, "data-state": state }, label);
      button.addEventListener("click", () => this.filter({ state }));
      this.states.append(button);
    }
    return this.states;
  }

  projectField() {
    this.chooser = el("select.project", { "aria-label": "Project" });
    this.chooser.addEventListener("change", () => this.filter({ project: this.chooser.value }));
    return this.chooser;
  }

  // --- searching and filtering

  typed() {
    this.sessions.query = this.search.value.trim();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.sessions.load(), PATIENCE);
  }

  filter(change) {
    this.sessions.filter(change);
    for (const button of this.states.children) {
      button.setAttribute("aria-pressed", String(button.dataset.state === this.sessions.state));
    }
  }

  showProjects() {
    const { projects, project } = this.sessions;
    if (projects.size === this.projectsShown) return;
    this.projectsShown = projects.size;
    replace(
      this.chooser,
      el("option", { value: "" }, "All projects"),
      [...projects].map(([key, root]) =>
        el("option", { value: key, selected: key === project, title: root }, oneLine(projectName(root), 40)),
      ),
    );
    this.chooser.hidden = projects.size < 2 && !project;
  }

  nearEnd(list) {
    const left = list.total - this.scroller.scrollTop - this.scroller.clientHeight;
    if (left < NEAR_END) this.sessions.more();
  }

  // --- drawing

  show({ fresh }) {
    const { order, rows, hits } = this.sessions;
    const found = hits.map((hit, n) => `hit:${n}`);
    const keys = [...order, ...(order.length && found.length ? [SAID] : []), ...found];
    const before = this.drawn;
    this.drawn = new Map(order.map((id) => [id, JSON.stringify(rows.get(id))]));
    this.list.show(keys);
    for (const [id, row] of this.drawn) if (before.has(id) && before.get(id) !== row) this.list.refresh(id);
    if (fresh) for (const key of found) this.list.refresh(key);
    if (fresh) this.list.toTop();
    this.showProjects();
    this.say(this.searchWords(keys.length) || (keys.length ? "" : this.emptyWords()));
  }

  /** What a search tells besides its hits: that there are none, or that not everything was searched yet. */
  searchWords(count) {
    const { query, indexed } = this.sessions;
    if (!query) return "";
    if (indexed && indexed.events < indexed.of) {
      const share = Math.floor((100 * indexed.events) / indexed.of);
      return `${count ? "" : "Nothing was found yet. "}${share} % of all messages are indexed; search again for the rest.`;
    }
    return count ? "" : "Nothing was found.";
  }

  emptyWords() {
    const { state, project } = this.sessions;
    if (project || ["ended", "archived"].includes(state)) return "No session fits.";
    return state === EVERY_STATE ? "No session yet." : "No session is active.";
  }

  say(words) {
    this.status.textContent = words;
    this.status.hidden = !words;
  }

  draw(key) {
    if (key === SAID) return el("p.list-part", {}, "In messages");
    if (key.startsWith("hit:")) return hitRow(this.sessions.hits[Number(key.slice(4))]);
    return sessionRow(this.sessions.rows.get(key), key === this.current);
  }

  /** The session that is open. */
  mark(id) {
    const before = this.current;
    this.current = id;
    for (const one of [before, id]) if (this.sessions.rows.has(one)) this.list.refresh(one);
  }

  // --- keys

  /** Move to the next or previous row. */
  move(by) {
    const links = this.list.keys.filter((key) => key !== SAID);
    if (!links.length) return;
    const focused = document.activeElement?.closest?.(".session-row");
    const at = focused ? links.findIndex((key) => this.list.node(key) === focused) : links.indexOf(this.current);
    const next = links[Math.min(links.length - 1, Math.max(0, at + by))];
    if (!this.list.node(next) || !inSight(this.list.node(next), this.scroller)) this.list.reveal(next);
    this.list.node(next)?.focus();
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }

  clearSearch() {
    this.search.value = "";
    this.typed();
  }
}

function inSight(node, scroller) {
  const [one, all] = [node.getBoundingClientRect(), scroller.getBoundingClientRect()];
  return one.top >= all.top && one.bottom <= all.bottom;
}
