/** The view for a browser that the server no longer accepts. Text that the user typed is kept. */

import { request } from "../lib/api.js";
import { el } from "../lib/dom.js";
import { hear, tell } from "../lib/event_bus.js";

const EVERY = 5000;

export function watchSignIn() {
  let sheet = null;
  let timer = 0;
  const look = async () => {
    try {
      await request("GET", "/api/sessions", { query: { limit: 1 } });
    } catch {
      return;
    }
    clearInterval(timer);
    sheet?.close();
    sheet?.remove();
    sheet = null;
    tell("signed-in");
  };
  hear("signed-out", () => {
    if (sheet) return;
    const again = el("button.primary", { type: "button", on: { click: look } }, "Try again");
    sheet = el(
      "dialog.dialog.reading",
      { "aria-labelledby": "signed-out-title" },
      el("h2", { id: "signed-out-title" }, "Signed out"),
      el(
        "p",
        {},
        "The server no longer knows this browser. ",
        "Run this where the server runs, and open the link that it prints, in this browser:",
      ),
      el("pre.command", {}, "outlast serve url"),
      el("p", {}, "What you have typed is kept, and this page goes on by itself."),
      el("div.dialog-buttons", {}, again),
    );
    sheet.addEventListener("cancel", (event) => event.preventDefault());
    document.body.append(sheet);
    sheet.showModal();
    timer = setInterval(look, EVERY);
  });
}
