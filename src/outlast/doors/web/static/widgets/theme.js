/** The colour theme: light, dark, or the system setting. */

import { el, replace } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { keep, kept } from "../lib/storage.js";

const THEMES = [
  ["auto", "screen", "as the system"],
  ["light", "sun", "light"],
  ["dark", "moon", "dark"],
];

export function themeButton() {
  const button = el("button.quiet.tool-button", { type: "button" });
  let at = Math.max(
    0,
    THEMES.findIndex(([name]) => name === kept("theme", "auto")),
  );
  const show = () => {
    const [name, drawing, words] = THEMES[at];
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    replace(button, icon(drawing));
    button.title = `Colours: ${words}`;
    button.setAttribute("aria-label", `Colours: ${words}. Change`);
  };
  button.addEventListener("click", () => {
    at = (at + 1) % THEMES.length;
    keep("theme", THEMES[at][0] === "auto" ? null : THEMES[at][0]);
    show();
  });
  show();
  return button;
}
