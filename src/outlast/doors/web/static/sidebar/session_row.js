/** Rows of the session list: a session, or a search hit. */

import { el, inside } from "../lib/dom.js";
import { oneLine, readable } from "../lib/invisible.js";
import { ago, whole } from "../lib/time_format.js";
import { activityMark, projectName } from "../session/session_head.js";

export function sessionRow(row, isCurrent) {
  const about = [
    row.state === "active" ? null : row.state,
    row.depth > 0 ? "sub-agent" : row.parent_session_id ? "fork" : null,
    row.project_root ? oneLine(projectName(row.project_root), 40) : null,
    row.message_count ? `${row.message_count} ${row.message_count === 1 ? "message" : "messages"}` : null,
  ].filter(Boolean);
  return inside(
    `#/s/${row.id}`,
    { class: `session-row ${row.state}`, "aria-current": isCurrent ? "page" : undefined, "data-id": row.id },
    el(
      "span.row-line",
      {},
      el("span.session-title", { dir: "auto" }, oneLine(row.title || "Untitled", 120)),
      activityMark(row.activity, { bare: true }),
    ),
    el(
      "span.row-line",
      {},
      el("span.session-about", {}, about.join(" · ")),
      el("span.time", { title: whole(row.updated_at) }, ago(row.updated_at)),
    ),
  );
}

export function hitRow(hit) {
  const { before = "", match = "", after = "" } = hit.snippet ?? {};
  return inside(
    `#/s/${hit.session_id}/at/${hit.seq}`,
    { class: "session-row hit", "data-id": hit.session_id },
    el(
      "span.row-line",
      {},
      el("span.session-title", { dir: "auto" }, oneLine(hit.title || "Untitled", 120)),
      el("span.time", { title: whole(hit.at) }, ago(hit.at)),
    ),
    el("span.snippet", { dir: "auto" }, readable(before), el("mark", {}, readable(match)), readable(after)),
  );
}
