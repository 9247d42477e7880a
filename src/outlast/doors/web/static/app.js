/** Entry point of the page: the session list next to a session, the form for a new session, or the usage of all. */

import { el, replace } from "./lib/dom.js";
import { showHelp } from "./views/help.js";
import { Home } from "./views/home.js";
import { listenToKeys } from "./keyboard.js";
import { onPlace } from "./lib/router.js";
import { SessionPane } from "./session/session_pane.js";
import { Sidebar } from "./sidebar/sidebar.js";
import { watchSignIn } from "./views/signed_out.js";
import { statsView } from "./views/usage.js";

const main = document.getElementById("main");
const sidebar = new Sidebar(showHelp);
document.getElementById("app").prepend(sidebar.node);
document.getElementById("skip").addEventListener("click", () => (document.getElementById("composer") ?? main).focus());

let pane = null;

function show(place) {
  document.body.dataset.place = place.kind;
  if (place.kind === "session" && pane instanceof SessionPane && pane.id === place.id) {
    pane.go(place);
    return;
  }
  pane?.close();
  sidebar.mark(place.kind === "session" ? place.id : null);
  if (place.kind === "session") {
    pane = new SessionPane(place);
  } else if (place.kind === "stats") {
    const view = statsView();
    pane = { node: el("section.pane", { "aria-label": "Usage of all sessions" }, view.node), close: view.close };
    document.title = "Usage · Outlast";
  } else {
    pane = new Home();
  }
  replace(main, pane.node);
  pane.focus?.();
}

watchSignIn();
listenToKeys(sidebar, () => pane);
onPlace(show);
