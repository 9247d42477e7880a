/** Toasts: short messages that disappear by themselves, and announcements for screen readers only. */

import { el } from "../lib/dom.js";
import { icon } from "../lib/icons.js";

const STAYS = 6000;

export function toast(text, tone = "calm") {
  const place = document.getElementById("toasts");
  const close = el("button.quiet.small", { type: "button", "aria-label": "Dismiss" }, icon("cross"));
  const node = el(`div.toast.${tone}`, {}, el("span", {}, text), close);
  const remove = () => node.remove();
  close.addEventListener("click", remove);
  place.append(node);
  while (place.childElementCount > 3) place.firstElementChild.remove();
  setTimeout(remove, STAYS);
}

/** Announce a text to screen readers. */
export function speak(text) {
  document.getElementById("spoken").textContent = text;
}

/** Run an action and show a toast if it fails. Returns the result, or undefined. */
export async function trying(action) {
  try {
    return await action();
  } catch (error) {
    if (error.name !== "AbortError") toast(error.message, "bad");
    return undefined;
  }
}
