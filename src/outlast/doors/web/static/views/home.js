/** The start page: begins a new session, optionally with a project, a model or a persona. */

import { createSession, readInfo } from "../lib/api.js";
import { Composer } from "../session/composer.js";
import { el } from "../lib/dom.js";
import { keep, kept } from "../lib/storage.js";
import { tell } from "../lib/event_bus.js";
import { leave } from "../session/outbox.js";
import { goTo } from "../lib/router.js";
import { trying } from "../widgets/toast.js";

export class Home {
  constructor() {
    this.fields = {
      repo_path: field("Project folder on the server", "the one the server was started in"),
      model_override: field("Model", "the server's"),
      persona_name: field("Persona", "default-interactive"),
    };
    const chosen = kept("new", {});
    for (const [name, input] of Object.entries(this.fields)) input.querySelector("input").value = chosen[name] ?? "";
    const more = el(
      "details.choices",
      { open: Object.values(chosen).some(Boolean) },
      el("summary", {}, "Project, model, persona"),
      el("div.choice-fields", {}, Object.values(this.fields)),
    );
    this.composer = new Composer(
      "new",
      { send: (text, how) => this.send(text, how), stop: () => {} },
      { placeholder: "What do you want to do?", extra: more },
    );
    this.node = el(
      "section.pane.home",
      { "aria-label": "New session" },
      el(
        "div.home-words",
        {},
        el("h1", {}, "A new session"),
        el(
          "p",
          {},
          "Every message is stored before it is answered. ",
          "Close the lid, lose the network, restart the machine: it goes on where it stopped.",
        ),
        el("p.home-note", { role: "status" }),
      ),
      this.composer.node,
    );
    document.title = "Outlast";
    this.note = this.node.querySelector(".home-note");
    readInfo().then(
      (info) => this.tell(info),
      () => {},
    );
  }

  /** What the server works with where nothing is chosen. */
  tell(info) {
    this.fields.repo_path.querySelector("input").placeholder = info.project_root;
    this.fields.model_override.querySelector("input").placeholder = info.model ?? "the server's";
    this.note.textContent = info.answers
      ? ""
      : "This server was started without a model: messages are stored, and a worker on the same store answers them.";
  }

  close() {}

  async send(content, how) {
    const wanted = {};
    for (const [name, input] of Object.entries(this.fields)) {
      const value = input.querySelector("input").value.trim();
      if (value) wanted[name] = value;
    }
    const made = await trying(() => createSession(wanted));
    if (!made) return false;
    keep("new", Object.keys(wanted).length ? wanted : null);
    // From here on the message cannot be lost: it is kept under the session that it belongs to.
    leave(made.session_id, content, { ...how, delivery: "queue", after: 0 });
    tell("list-changed");
    goTo(`#/s/${made.session_id}`);
    return true;
  }

  focus() {
    if (!matchMedia("(pointer: coarse)").matches) this.composer.focus();
  }
}

function field(label, placeholder) {
  return el(
    "label.field",
    {},
    el("span", {}, label),
    el("input", { type: "text", placeholder, autocomplete: "off", spellcheck: "false", maxlength: "4096" }),
  );
}
