/** Updates the activity of a session after each event, in a word or two, and announces what the user must know. */

import { oneLine } from "../lib/invisible.js";
import { speak } from "../widgets/toast.js";
import { subjectOf } from "../transcript/tool_call.js";

/** Update the activity after an event. */
export function progressed(session, { seq, kind, body }) {
  switch (kind) {
    case "TurnStarted":
      session.set("running", "Starting");
      break;
    case "ModelRequested":
      session.draft.open(seq);
      session.set(
        "running",
        (body.attempt ?? 1) > 1 ? `Asking the model again (attempt ${body.attempt})` : "Waiting for the model",
      );
      break;
    case "AssistantReplied":
    case "ReplyInterrupted":
      session.draft.close();
      session.draftShown = false;
      session.doing = "Working";
      if (kind === "AssistantReplied") speak(`Reply: ${oneLine(session.transcript.bySeq.get(seq)?.content ?? "", 300)}`);
      break;
    case "ToolCallStarted":
      session.doing = `Running ${oneLine(body.name, 40)} ${subjectOf(body.name, body.arguments)}`;
      break;
    case "ApprovalRequested":
      session.set("approval", "Waiting for your answer");
      speak("Your answer is needed.");
      break;
    case "ApprovalAnswered":
      session.asking.answered(body.approval_seq);
      session.set("running", "Working");
      break;
    case "TurnEnded":
      session.draft.close();
      session.draftShown = false;
      session.set(null, "");
      session.asking.put([]);
      break;
    case "SessionRotated":
      session.on.movedTo(body.to_session_id);
      break;
    default:
  }
  session.changed("draft");
}
