/** Open questions of a session and of its working sub-agents, as last read from the server. Drawing is elsewhere. */

import { readApprovals } from "../lib/api.js";

const TASK = "task";
const AGAIN = 1500;

export class Approvals {
  constructor(session) {
    this.session = session;
    this.questions = [];
    this.newest = null; // the newest request
  }

  close() {
    clearTimeout(this.looking);
    clearTimeout(this.trying);
  }

  event({ kind, body }) {
    if (/^Approval/.test(kind)) this.read().catch(() => {});
    if (kind === "ToolCallStarted" && body?.name === TASK) this.lookBelow();
  }

  /** The newest request counts, in any order of the responses. */
  async read({ ifOthers = false } = {}) {
    const reading = (this.newest = {});
    try {
      const found = await readApprovals(this.session.id, this.session.abort.signal);
      if (reading !== this.newest || (ifOthers && idsOf(found) === idsOf(this.questions))) return;
      this.put(found);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (reading === this.newest && error.passing) this.trying = setTimeout(() => this.read().catch(() => {}), AGAIN);
    }
  }

  put(questions) {
    this.newest = null;
    this.questions = questions;
    this.session.changed("questions", "state");
  }

  /** Event `seq` answered one of the session's own questions. */
  answered(seq) {
    this.put(this.questions.filter((one) => one.session_id !== this.session.id || one.approval_id !== seq));
  }

  /** Questions of a sub-agent are in its own log; poll for them while one works. */
  lookBelow() {
    clearTimeout(this.looking);
    const { session } = this;
    const { calls, results } = session.transcript;
    if (!session.isRunning || ![...calls].some(([id, { name }]) => name === TASK && !results.has(id))) return;
    this.looking = setTimeout(async () => {
      await this.read({ ifOthers: true }).catch(() => {});
      if (Boolean(this.questions.length) !== (session.summary?.activity === "approval")) session.refresh(0);
      this.lookBelow();
    }, AGAIN);
  }
}

const idsOf = (questions) => questions.map((one) => `${one.session_id}:${one.approval_id}`).join(" ");
