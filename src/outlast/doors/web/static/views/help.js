/** Help: the keyboard shortcuts and the meaning of the marks. */

import { panel } from "../widgets/dialog.js";
import { el } from "../lib/dom.js";
import { activityMark } from "../session/session_head.js";

const KEYS = [
  ["j  k  or  ↓  ↑", "next and previous session in the list; Enter opens it"],
  ["/", "search"],
  ["n", "new session"],
  ["c", "write: go to the message box"],
  ["1 … 5", "transcript, timeline, ledger, usage, tree"],
  ["End", "to the newest message"],
  ["Enter", "send; Shift+Enter begins a new line"],
  ["Ctrl+Enter", "send, and steer the running turn"],
  ["Ctrl+.", "stop the running turn"],
  ["Esc", "leave a field, a search, a menu; then back to the list"],
  ["?", "this help"],
];
const MARKS = [
  ["running", "a turn runs"],
  ["approval", "it waits for your answer"],
  ["interrupted", "a turn was cut off; it goes on by itself, or with Continue"],
  ["waiting", "a message was not answered yet"],
];

export function showHelp() {
  panel(
    "Keys and marks",
    el(
      "dl.keys",
      {},
      KEYS.map(([keys, words]) => [
        el(
          "dt",
          {},
          keys.split("  ").map((key) => (key === "or" ? " or " : el("kbd", {}, key))),
        ),
        el("dd", {}, words),
      ]),
    ),
    el(
      "dl.keys.marks",
      {},
      MARKS.map(([activity, words]) => [el("dt", {}, activityMark(activity)), el("dd", {}, words)]),
    ),
  );
}
