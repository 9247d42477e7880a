/** A disclosure: a button line, and content that is drawn below it while it is open.
 *
 *  An open disclosure stays open when its row leaves the viewport and comes back. */

import { el } from "../lib/dom.js";
import { icon } from "../lib/icons.js";

const open = new Set();
let count = 0;

/** `key` is its permanent name; `draw` is called only when it opens. */
export function fold(key, line, draw, { className = "", label } = {}) {
  const id = `fold-${++count}`;
  const below = el("div.fold-below", { id, hidden: true });
  const button = el(
    "button.fold-line",
    { type: "button", "aria-expanded": "false", "aria-controls": id, "aria-label": label },
    icon("chevron", "turning"),
    line,
  );
  const turn = (isOpen) => {
    button.setAttribute("aria-expanded", String(isOpen));
    below.hidden = !isOpen;
    if (isOpen && !below.hasChildNodes()) below.append(...[draw()].flat());
  };
  button.addEventListener("click", () => {
    const isOpen = below.hidden;
    if (isOpen) open.add(key);
    else open.delete(key);
    turn(isOpen);
  });
  if (open.has(key)) turn(true);
  return el("div.fold", { class: className }, button, below);
}
