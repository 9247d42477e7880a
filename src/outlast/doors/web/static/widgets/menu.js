/** A menu below a button: arrow keys move, Enter chooses, Escape or a click elsewhere closes it. */

import { el } from "../lib/dom.js";

/** `items()` returns `{label, act, danger, node}`, or null for a separator; it is called each time the menu opens. */
export function menuButton(button, items, label) {
  button.setAttribute("aria-haspopup", "menu");
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () =>
    document.querySelector(".menu") ? closeMenu() : openMenu(button, items(), label),
  );
}

let closeMenu = () => {};

function openMenu(button, items, label) {
  const entries = [];
  const menu = el("div.menu", { role: "menu", "aria-label": label });
  for (const item of items) {
    if (!item) {
      menu.append(el("hr", { role: "separator" }));
      continue;
    }
    const entry = item.node ?? el("button", { type: "button" }, item.label);
    entry.setAttribute("role", "menuitem");
    entry.tabIndex = -1;
    entry.classList.add("menu-item");
    if (item.danger) entry.classList.add("danger-text");
    entry.addEventListener("click", () => {
      closeMenu();
      item.act?.();
    });
    entries.push(entry);
    menu.append(entry);
  }
  const outside = (event) => !menu.contains(event.target) && !button.contains(event.target) && closeMenu();
  closeMenu = () => {
    closeMenu = () => {};
    menu.remove();
    document.removeEventListener("pointerdown", outside);
    button.setAttribute("aria-expanded", "false");
    button.focus();
  };
  menu.addEventListener("keydown", (event) => keys(event, entries));
  document.addEventListener("pointerdown", outside);
  button.setAttribute("aria-expanded", "true");
  button.parentElement.append(menu);
  entries[0]?.focus();
}

function keys(event, entries) {
  const at = entries.indexOf(document.activeElement);
  const moves = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: entries.length - 1 };
  if (event.key in moves) {
    event.preventDefault();
    entries[(moves[event.key] + entries.length) % entries.length].focus();
  } else if (event.key === "Escape" || event.key === "Tab") {
    event.stopPropagation();
    closeMenu();
  }
}
