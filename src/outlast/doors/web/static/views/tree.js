/** Draws the family of a session: its origin, its forks, its sub-agents, and the session that continues it. */

import { readView } from "../lib/api.js";
import { el, svg } from "../lib/dom.js";
import { oneLine } from "../lib/invisible.js";
import { ago } from "../lib/time_format.js";
import { goTo } from "../lib/router.js";
import { loadedView } from "./view.js";

const ROW = 56;
const STEP = 34;
const KINDS = { root: "", fork: "fork", task: "sub-agent", rotation: "goes on" };

export function treeView(session) {
  return loadedView("Tree", {
    session,
    read: (signal) => readView(session.id, "tree", {}, signal),
    draw: ({ members, complete }) => drawn(session, members, complete),
    empty: "There is nothing to draw yet.",
  });
}

function drawn(session, nodes, complete) {
  if (!nodes.length) return null;
  const ids = new Set(nodes.map((node) => node.id));
  const children = new Map();
  for (const node of nodes) {
    const parent = ids.has(node.parent_id) ? node.parent_id : null;
    children.set(parent, [...(children.get(parent) ?? []), node]);
  }
  const placed = [];
  const place = (node, depth, above) => {
    const one = { node, depth, above, n: placed.length };
    placed.push(one);
    for (const child of (children.get(node.id) ?? []).sort((a, b) => a.created_at - b.created_at))
      place(child, depth + 1, one);
  };
  for (const root of children.get(null) ?? []) place(root, 0, null);
  const width = 640 + Math.max(...placed.map((one) => one.depth)) * STEP;
  const count = `${nodes.length} ${nodes.length === 1 ? "session" : "sessions"}`;
  const height = placed.length * ROW + 12;
  return el(
    "div.tree",
    {},
    el(
      "p.meaning",
      {},
      nodes.length === 1
        ? "This session has no forks and no sub-agents."
        : `${count}: forks, sub-agents, and where they begin.${complete ? "" : " There are more than can be drawn."}`,
    ),
    svg(
      "svg.family",
      { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `Family of ${count}` },
      placed.map(edge),
      placed.map((one) => point(one, session.id)),
    ),
  );
}

const x = (one) => 18 + one.depth * STEP;
const y = (one) => 26 + one.n * ROW;

function edge(one) {
  if (!one.above) return null;
  const [fromX, fromY, toX, toY] = [x(one.above), y(one.above), x(one), y(one)];
  const d = `M${fromX} ${fromY + 9} V${toY - 12} Q${fromX} ${toY} ${fromX + 12} ${toY} H${toX - 9}`;
  return svg(`path.edge.${one.node.relation}`, { d, fill: "none" });
}

function point(one, current) {
  const { node } = one;
  const title = oneLine(node.title || "Untitled", 70);
  const base = node.base_seq ? ` at event ${node.base_seq}` : "";
  const kind = KINDS[node.relation] ? `${KINDS[node.relation]}${base} · ` : "";
  const state = node.state === "active" ? "" : ` · ${node.state}`;
  const about = `${kind}${node.message_count} messages · ${ago(node.updated_at)}${state}`;
  const go = () => goTo(`#/s/${node.id}`);
  const look = node.id === current ? "node.current" : "node";
  return svg(
    `g.${look}`,
    {
      role: "link",
      tabindex: "0",
      "aria-label": `${title}, ${about}`,
      "aria-current": node.id === current ? "page" : undefined,
      on: { click: go, keydown: (event) => event.key === "Enter" && go() },
    },
    svg("title", {}, title),
    svg("rect.reach", { x: x(one) - 14, y: y(one) - 24, width: 600, height: ROW - 6, rx: 8 }),
    svg(`circle.point.${node.is_running ? "running" : "idle"}`, { cx: x(one), cy: y(one), r: 7 }),
    svg("text.name", { x: x(one) + 18, y: y(one) }, title),
    svg("text.about", { x: x(one) + 18, y: y(one) + 17 }, about),
  );
}
