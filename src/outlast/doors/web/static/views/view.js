/** Frame of a view that is loaded and then drawn, with messages for loading, no content, and failure. */

import { el, replace } from "../lib/dom.js";
import { hear } from "../lib/event_bus.js";

/** A view that loads its data: `read(signal)` returns it, `draw` renders it; if `draw` returns null, `empty` is shown.
 *  It reads again after the session changed, and redraws if the data differ. */
export function loadedView(name, { session, read, draw, empty }) {
  const abort = new AbortController();
  const node = el(
    "div.view",
    { tabindex: "0", role: "region", "aria-label": name },
    el("p.loading", { role: "status" }, "Loading"),
  );
  let shown = "";
  const load = async () => {
    try {
      const found = await read(abort.signal);
      const text = JSON.stringify(found);
      if (text === shown) return; // what is read or has the focus stays
      const { scrollTop } = node;
      replace(node, draw(found) ?? el("p.empty", {}, empty));
      node.scrollTop = scrollTop;
      shown = text;
    } catch (error) {
      if (error.name !== "AbortError" && !shown) replace(node, el("p.empty", { role: "alert" }, error.message));
    }
  };
  let timer;
  const unhear = hear("session-changed", (summary) => {
    if (summary.id !== session?.id) return;
    clearTimeout(timer);
    timer = setTimeout(load, 800);
  });
  load();
  return {
    node,
    close: () => {
      abort.abort();
      unhear();
      clearTimeout(timer);
    },
  };
}
