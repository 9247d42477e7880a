/** Model of the session list: paged, filtered and searched; refreshed every few seconds. */

import { listSessions, searchAll } from "../lib/api.js";
import { keep, kept } from "../lib/storage.js";

const PAGE = 50;
export const EVERY_STATE = "all";

export class SessionList {
  /** `on`: changed({fresh}), where `fresh` means another list, not a refresh; said(words). */
  constructor(on) {
    this.on = on;
    this.rows = new Map();
    this.order = [];
    this.cursor = null;
    this.hits = [];
    this.query = "";
    this.state = kept("state", "active"); // ended and archived sessions are hidden
    this.project = kept("project", "");
    this.projects = new Map(kept("projects", [])); // key -> folder
    this.abort = new AbortController();
  }

  get wanted() {
    return { limit: PAGE, state: this.state === EVERY_STATE ? "" : this.state, project: this.project };
  }

  filter(change) {
    Object.assign(this, change);
    keep("state", this.state);
    keep("project", this.project);
    return this.load();
  }

  /** Reload the list: the first page, or the results of the query. */
  async load() {
    this.abort.abort();
    this.abort = new AbortController();
    try {
      if (this.query) await this.find();
      else await this.first();
      this.on.changed({ fresh: true });
    } catch (error) {
      if (error.name !== "AbortError") this.on.said(error.message);
    }
  }

  async first() {
    const { rows, cursor } = await listSessions(this.wanted, this.abort.signal);
    this.clear();
    this.take(rows);
    this.cursor = cursor;
  }

  /** Search titles first, then messages; hidden sessions too, unless a state is chosen. */
  async find() {
    const { query, wanted } = this;
    if (wanted.state === "active") wanted.state = "";
    const folder = this.projects.get(this.project);
    this.on.said("Searching");
    const [titled, found] = await Promise.all([
      listSessions({ ...wanted, q: query, limit: 20 }, this.abort.signal),
      searchAll({ q: query, limit: 40, project: folder }, this.abort.signal),
    ]);
    this.clear();
    this.take(titled.rows);
    this.indexed = found.indexed;
    this.hits = found.hits.filter((hit) => hit.role !== "title" || !this.rows.has(hit.session_id));
  }

  clear() {
    this.order = [];
    this.rows = new Map();
    this.hits = [];
    this.indexed = null;
    this.cursor = null;
  }

  /** Reload the first page: its rows go first, the rest stays. */
  async poll() {
    if (this.query || this.polling) return;
    this.polling = true;
    const { abort } = this;
    try {
      const { rows, cursor } = await listSessions(this.wanted, abort.signal);
      if (abort === this.abort && !this.query) this.merge(rows, cursor);
    } catch (error) {
      if (error.name !== "AbortError") this.on.said(error.status === 401 ? "" : "Not connected");
    } finally {
      this.polling = false;
    }
  }

  merge(rows, cursor) {
    const before = this.rows;
    const fresh = new Set(rows.map((row) => row.id));
    const oldest = rows.at(-1)?.updated_at ?? 0;
    // A row missing from this page was deleted or no longer matches the filter.
    const rest = this.order.filter((id) => cursor && !fresh.has(id) && before.get(id).updated_at <= oldest);
    const next = rest.length ? this.cursor : cursor;
    this.clear();
    this.take(rows);
    this.take(rest.map((id) => before.get(id)));
    this.cursor = next;
    this.on.changed({ fresh: false });
  }

  take(rows) {
    for (const row of rows) {
      if (!this.rows.has(row.id)) this.order.push(row.id);
      this.rows.set(row.id, row);
      if (row.project_key && !this.projects.has(row.project_key)) {
        this.projects.set(row.project_key, row.project_root ?? row.project_key);
        keep("projects", [...this.projects].slice(-100));
      }
    }
  }

  /** The next page. */
  async more() {
    if (!this.cursor || this.reading || this.query) return;
    this.reading = true;
    try {
      const { rows, cursor } = await listSessions({ ...this.wanted, cursor: this.cursor }, this.abort.signal);
      this.take(rows);
      this.cursor = cursor;
      this.on.changed({ fresh: false });
    } catch (error) {
      if (error.name !== "AbortError") this.on.said(error.message);
    } finally {
      this.reading = false;
    }
  }

  /** Apply news about a session before the list reports it. */
  learn(summary) {
    const known = this.rows.get(summary.id);
    if (known) this.rows.set(summary.id, { ...known, ...summary });
    else this.poll();
    return Boolean(known);
  }
}
