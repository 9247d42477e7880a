/** The reply in progress: its pieces in the order of arrival. The event that closes the attempt replaces it. */

export class Draft {
  constructor() {
    this.attempt = 0;
    this.n = 0;
    this.parts = []; // {part: "text" | "reasoning" | "call:INDEX:NAME", text}
  }

  get isOpen() {
    return this.attempt > 0;
  }

  /** A frame of the stream. A complete frame replaces the draft; a repeated one is ignored. */
  take(frame) {
    if (frame.replace || frame.parts) {
      this.attempt = frame.attempt;
      this.n = frame.n;
      this.parts = (frame.parts ?? [{ part: "text", text: frame.text }]).map((one) => ({ ...one }));
      return;
    }
    if (frame.attempt !== this.attempt) this.open(frame.attempt);
    else if (frame.n <= this.n) return;
    this.n = frame.n;
    const part = frame.part ?? "text";
    const last = this.parts[this.parts.length - 1];
    if (last && last.part === part) last.text += frame.text;
    else this.parts.push({ part, text: frame.text });
  }

  /** Start a new attempt. */
  open(attempt) {
    this.attempt = attempt;
    this.n = 0;
    this.parts = [];
  }

  close() {
    this.open(0);
  }
}
