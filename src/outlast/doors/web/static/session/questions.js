/** The panel of open questions: a call to approve, with its exact arguments and its diff, or a question of the model.
 *  It shows one question at a time. Keys answer only while a button has the focus, so typing never approves a call, and
 *  a double click never answers two questions. */

import { answerApproval } from "../lib/api.js";
import { diffView } from "../text/diff.js";
import { el, inside, replace } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { exact, exactNodes, readable } from "../lib/invisible.js";
import { trying } from "../widgets/toast.js";

const ANSWERS = [
  ["once", "Allow once", "primary"],
  ["session", "Allow in this session", ""],
  ["always", "Always allow here", ""],
  ["deny", "Deny", "danger"],
];

/** A plan is approved once: the answer starts the work. */
const PLAN_ANSWERS = [
  ["once", "Start the work", "primary"],
  ["deny", "Keep planning", "danger"],
];

export class Questions {
  /** `on`: answered(), and left() when the focus was here and goes with the question. */
  constructor(session, on) {
    this.session = session;
    this.on = on;
    this.node = el("section.questions", { "aria-label": "Waiting for your answer", hidden: true });
    this.shown = null;
  }

  show() {
    const [first, ...more] = this.session.questions;
    this.node.hidden = !first;
    if (!first) {
      this.shown = null;
      this.node.replaceChildren();
      return;
    }
    const id = `${first.session_id}:${first.approval_id}`;
    const others = more.length ? el("p.more", {}, `${more.length} more ${more.length === 1 ? "waits" : "wait"}`) : null;
    if (this.shown === id) {
      this.node.querySelector(".more")?.remove();
      if (others) this.node.append(others);
      return; // what is being read or typed stays
    }
    this.shown = id;
    replace(this.node, first.name === "ask_user" ? this.asked(first) : this.approval(first), others);
  }

  async answer(question, answer) {
    for (const button of this.node.querySelectorAll("button")) button.disabled = true;
    const body = { approval_id: question.approval_id, answer, call_digest: question.call_digest };
    await trying(() => answerApproval(question.session_id, body));
    this.shown = null;
    const { activeElement } = document;
    if (activeElement === document.body || this.node.contains(activeElement)) this.on.left();
    this.on.answered();
  }

  approval(question) {
    const plan = question.name === "exit_plan";
    const asks = plan ? ["Carry out this plan?"] : ["Allow ", el("code", {}, exactNodes(question.name)), "?"];
    const buttons = (plan ? PLAN_ANSWERS : ANSWERS).map(([answer, label, look]) =>
      el("button", { type: "button", class: look, on: { click: once(() => this.answer(question, answer)) } }, label),
    );
    return el(
      "div.question",
      { role: "group", "aria-label": plan ? asks[0] : `Allow ${exact(question.name)}?` },
      el("h2", {}, icon("hand"), ...asks),
      this.whose(question),
      question.reason ? el("p.reason", {}, readable(question.reason)) : null,
      el("div.exactly", { tabindex: "0", role: "region", "aria-label": "Exactly this" }, exactly(question)),
      question.scope && !plan
        ? el("p.reason", {}, "For the session or always: ", el("code", {}, exactNodes(question.scope)))
        : null,
      el("div.answers", {}, buttons),
    );
  }

  /** A sub-agent has a session of its own, where there is more to see. */
  whose(question) {
    if (question.session_id === this.session.id) return null;
    return el("p.reason", {}, inside(`#/s/${question.session_id}`, {}, "A sub-agent"), " asks.");
  }

  asked(question) {
    const { question: text, choices } = question.arguments ?? {};
    const input = el("input", {
      type: "text",
      "aria-label": "Your answer",
      placeholder: "Your answer",
      autocomplete: "off",
    });
    const form = el("form.answer", {}, input, el("button.primary", { type: "submit" }, "Answer"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (input.value.trim()) this.answer(question, input.value);
    });
    const offered = Array.isArray(choices) ? choices.map(String) : [];
    return el(
      "div.question",
      { role: "group", "aria-label": "The model asks" },
      el("h2", {}, icon("help"), "The model asks"),
      this.whose(question),
      el("p.asks", { dir: "auto" }, readable(String(text ?? question.reason ?? ""))),
      offered.length
        ? el(
            "div.answers",
            {},
            offered.map((choice) => {
              const click = once(() => this.answer(question, choice));
              return el("button", { type: "button", on: { click } }, readable(choice));
            }),
          )
        : null,
      form,
    );
  }
}

/** A click, but not the second one of two: that was meant for the question that stood here before. */
const once = (act) => (event) => event.detail <= 1 && act();

/** What would be done, to the letter. */
function exactly(question) {
  const given = question.arguments ?? {};
  if (question.name === "exit_plan") return el("pre.command", { dir: "auto" }, exactNodes(String(given.plan ?? "")));
  if (question.diff) return diffView(question.diff, { exact: true });
  if (question.name === "bash" && typeof given.command === "string") {
    return [
      el("pre.command", { dir: "ltr" }, exactNodes(given.command)),
      details(given, question.reason ?? "").map((line) => el("p.other", {}, exactNodes(line))),
    ];
  }
  return el(
    "dl.arguments",
    {},
    Object.entries(given).map(([name, value]) => [
      el("dt", {}, exactNodes(name)),
      el("dd.mono", { dir: "ltr" }, exactNodes(typeof value === "string" ? value : JSON.stringify(value, null, 1))),
    ]),
  );
}

const OPENED = {
  network: "the network to ",
  write: "writing to ",
  read: "reading ",
  localhost: "port ",
  socket: "the socket ",
};

/** A wall of the sandbox in words: `network:example.org` is "the network to example.org". */
function opened(need) {
  const [kind, ...rest] = String(need).split(":");
  if (!Object.hasOwn(OPENED, kind) || !rest.length) return String(need);
  return `${OPENED[kind]}${rest.join(":")}${kind === "localhost" ? " of this machine" : ""}`;
}

/** The arguments of a command except its text, one per line. The model's words are quoted, unless the reason has them. */
function details(given, reason) {
  return Object.entries(given).flatMap(([name, value]) => {
    if (name === "command") return [];
    if (name === "needs" && Array.isArray(value)) return value.length ? [`opens ${value.map(opened).join(" and ")}`] : [];
    if (name === "why" && typeof value === "string") {
      return reason.includes(`"${value}"`) ? [] : [`the model says: "${value}"`];
    }
    return [`${name} = ${typeof value === "string" ? value : JSON.stringify(value)}`];
  });
}
