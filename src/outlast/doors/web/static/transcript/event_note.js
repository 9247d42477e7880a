/** Notes: the small lines between messages that say what an event changed. Most kinds of events have none. */

import { oneLine } from "../lib/invisible.js";
import { dateOf, seconds, short } from "../lib/time_format.js";

/** The event kinds that give notes or change rows; older pages request these. */
export const NOTED = [
  "TurnStarted",
  "TurnEnded",
  "InputPromoted",
  "InputWithdrawn",
  "ReplyInterrupted",
  "CompactionUndone",
  "HistoryCleared",
  "Rewound",
  "RewindUndone",
  "SessionForked",
  "SessionRenamed",
  "SessionEnded",
  "SessionReopened",
  "SessionRotated",
  "ModelChanged",
  "PersonaChanged",
];

/** A note row: `{seq, at, note, tone, action?}`; null if the event needs no note. */
export function noteOf(seq, kind, at, body, transcript) {
  const note = (words, tone = "calm", more = {}) => ({ seq, at, note: words, tone, ...more });
  switch (kind) {
    case "TurnEnded":
      return ended(body, at, transcript, note);
    case "ReplyInterrupted":
      return body.parts?.length
        ? null
        : note(`The reply broke off: ${oneLine(body.reason || "interrupted", 200)}`, "warn", { brokeOff: true });
    case "CompactionUndone":
      return note("The compaction was undone: the model sees the originals again");
    case "HistoryCleared":
      return note("Cleared: everything before is archived, and the session goes on");
    case "Rewound":
      return note("Rewound: what was said after this point is set aside", "calm", { undo: "rewind" });
    case "RewindUndone":
      return note("The rewind was undone");
    case "SessionForked":
      return note("Forked here from another session", "calm", { fork: body.base_session_id });
    case "SessionRenamed":
      return note(`Renamed to “${oneLine(body.title, 80)}”`);
    case "SessionEnded":
      return note("The session was ended");
    case "SessionReopened":
      return note("The session was reopened");
    case "SessionRotated":
      return note("The session goes on in a new one", "calm", { goesOn: body.to_session_id });
    case "ModelChanged":
      return note(`The model is ${oneLine(body.model, 80)} from the next turn on`);
    case "PersonaChanged":
      return note(`The persona is ${oneLine(body.persona, 80)} from the next turn on`);
    default:
      return null;
  }
}

function ended(body, at, transcript, note) {
  const why = body.reason ? `: ${oneLine(body.reason, 300)}` : "";
  const told = String(body.facts?.note ?? "").trim();
  switch (body.outcome) {
    case "completed": {
      const took = transcript.turn ? (dateOf(at) - dateOf(transcript.turn.at)) / 1000 : 0;
      if (told) return note(`Outlast: ${oneLine(told, 300)}`);
      return took >= 10 ? note(`Done in ${seconds(took)}`) : null;
    }
    case "stopped":
      return note(`Stopped${why}`, "warn");
    case "interrupted":
      return note(`Stopped${why}. The session is kept, and you can go on.`, "warn", { retry: true, tells: true });
    case "budget_exhausted":
      return note(`Stopped${why}. Send a message to go on.`, "warn");
    default:
      return note(`The turn failed${why}`, "bad", { retry: true, tells: Boolean(body.reason) });
  }
}

export function compactedWords(row) {
  return row.before
    ? `Compacted from ${short(row.before)} to ${short(row.after ?? 0)} tokens`
    : "Compacted: a summary stands for what was said before";
}
