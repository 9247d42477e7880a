/** Keyboard shortcuts. They work everywhere except in input fields; `showHelp` lists them. */

import { showHelp } from "./views/help.js";
import { goTo, here, VIEWS } from "./lib/router.js";

export function listenToKeys(sidebar, pane) {
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]")) return;
    const field = event.target.closest?.("input, textarea, select");
    if (event.key === ".") {
      if (event.ctrlKey || event.metaKey) stop(pane(), event);
      if (field || event.ctrlKey || event.metaKey) return;
    }
    if (event.key === "Escape") {
      leave(event, field, sidebar);
      return;
    }
    if (field || event.ctrlKey || event.metaKey || event.altKey) return;
    if (act(event, sidebar, pane())) event.preventDefault();
  });
}

function stop(pane, event) {
  if (!pane?.session?.isRunning) return;
  event.preventDefault();
  pane.verb("interrupt");
}

function leave(event, field, sidebar) {
  if (field) {
    if (field === sidebar.search && field.value) sidebar.clearSearch();
    else field.blur();
    event.preventDefault();
  } else if (here().kind === "session" && matchMedia("(max-width: 760px)").matches) {
    goTo("#/");
  } else {
    sidebar.move(0);
  }
}

/** True if the key was handled. */
function act(event, sidebar, pane) {
  const inTranscript = event.target.closest?.(".transcript, .view, .menu");
  switch (event.key) {
    case "j":
      sidebar.move(1);
      return true;
    case "k":
      sidebar.move(-1);
      return true;
    case "ArrowDown":
    case "ArrowUp":
      if (inTranscript) return false;
      sidebar.move(event.key === "ArrowDown" ? 1 : -1);
      return true;
    case "/":
      sidebar.focusSearch();
      return true;
    case "n":
      goTo("#/");
      return true;
    case "c":
      pane?.composer?.text.focus();
      return true;
    case "?":
      showHelp();
      return true;
    case "End":
      pane?.transcript?.list.toEnd();
      return Boolean(pane?.transcript);
    case "1":
    case "2":
    case "3":
    case "4":
    case "5":
      return view(VIEWS[Number(event.key) - 1]);
    default:
      return false;
  }
}

function view(name) {
  const place = here();
  if (place.kind !== "session") return false;
  goTo(name === "transcript" ? `#/s/${place.id}` : `#/s/${place.id}/${name}`);
  return true;
}
