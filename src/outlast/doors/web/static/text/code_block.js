/** A code block with its language, a copy button, and syntax colours where they are cheap to compute. */

import { el, replace } from "../lib/dom.js";
import { highlighted } from "./highlight.js";
import { icon } from "../lib/icons.js";
import { readable } from "../lib/invisible.js";

export function codeBlock(text, language = "") {
  const code = el("code", {}, highlighted(readable(text.replace(/\n$/, "")), language));
  return el(
    "div.code",
    {},
    el(
      "div.code-head",
      {},
      el("span", {}, language),
      copyButton(() => text),
    ),
    el("pre", { tabindex: "0", role: "region", "aria-label": language ? `Code, ${language}` : "Code" }, code),
  );
}

/** A button that copies the result of `text()`. */
export function copyButton(text, label = "Copy") {
  const button = el("button.quiet.small.copy", { type: "button", title: label, "aria-label": label }, icon("copy"));
  button.addEventListener("click", async () => {
    const done = await copied(text());
    replace(button, icon(done ? "check" : "cross"));
    button.setAttribute("aria-label", done ? "Copied" : "Could not be copied");
    setTimeout(() => {
      replace(button, icon("copy"));
      button.setAttribute("aria-label", label);
    }, 1500);
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
