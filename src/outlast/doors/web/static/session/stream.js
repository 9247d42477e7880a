/** Follows a session live: delivers every durable event once, in order, and the pieces of the reply in progress.
 *
 *  The cursor is the id of the last frame. Whatever ends the connection (a restart, a network failure, sleep), the
 *  follower reconnects with that cursor, with growing delays. A tab that finds no free connection slot, or that is
 *  hidden, polls for new frames instead; it gets the same frames. */

import { ApiError, streamAddress } from "../lib/api.js";
import { hear, tell } from "../lib/event_bus.js";
import { takeSlot } from "../lib/stream_slots.js";
import { frames } from "../lib/sse.js";

const BACK_OFF = [250, 500, 1000, 2000, 4000, 8000];
const SILENCE = 20_000; // heartbeats come every five seconds
const POLL = 1000;
const HIDDEN_POLL = 5000;

export class Follower {
  /** `on`: event({seq, kind, at, body}), delta(data), resync(), state("live" | "connecting" | "offline"), gone(). */
  constructor(sessionId, cursor, on) {
    this.sessionId = sessionId;
    this.cursor = String(cursor);
    this.on = on;
    this.stopped = false;
    this.failures = 0;
    this.wake = () => {};
    this.abort = new AbortController();
  }

  start() {
    this.visibility = () => this.again();
    document.addEventListener("visibilitychange", this.visibility);
    this.unhear = hear("signed-in", () => this.again());
    this.run().catch((error) => {
      if (!this.stopped) throw error;
    });
    return this;
  }

  stop() {
    this.stopped = true;
    document.removeEventListener("visibilitychange", this.visibility);
    this.unhear?.();
    this.again();
  }

  /** Reconnect or close now, without waiting for the timer. */
  again() {
    this.meant = true;
    this.abort.abort();
    this.wake();
  }

  async run() {
    while (!this.stopped) {
      this.abort = new AbortController();
      this.meant = false;
      const release = document.hidden ? null : await takeSlot();
      let pause = release ? BACK_OFF[0] : document.hidden ? HIDDEN_POLL : POLL;
      try {
        if (await this.connection(Boolean(release))) return;
        this.failures = 0;
      } catch {
        if (!this.meant) {
          pause = BACK_OFF[Math.min(this.failures++, BACK_OFF.length - 1)];
          this.on.state("offline");
        }
      } finally {
        release?.();
      }
      if (!this.stopped && !this.meant) await this.pause(pause);
    }
  }

  /** One connection to its end; true when there is nothing more to follow. */
  async connection(follow) {
    if (this.failures) this.on.state("connecting");
    const timer = this.watchdog();
    try {
      const response = await fetch(streamAddress(this.sessionId, follow), {
        headers: { Accept: "text/event-stream", "Last-Event-ID": this.cursor },
        signal: this.abort.signal,
        cache: "no-store",
        credentials: "same-origin",
      });
      if (response.status === 401) tell("signed-out");
      if (response.status === 404) return this.over(() => this.on.gone());
      if ([400, 409, 410, 412, 416, 422].includes(response.status)) return this.over(() => this.on.resync());
      if (!response.ok) throw new ApiError(response.status, "the stream was refused");
      tell("reached");
      this.failures = 0;
      this.on.state("live");
      for await (const frame of frames(response.body)) {
        timer.again();
        if (this.stopped) return true;
        if (frame && this.take(frame)) return true;
      }
      return false;
    } finally {
      timer.stop();
      this.abort.abort();
    }
  }

  over(last) {
    this.stop();
    last();
    return true;
  }

  /** True when the frame was the last one. */
  take(frame) {
    if (frame.event === "resync") return this.over(() => this.on.resync());
    const data = JSON.parse(frame.data);
    if (frame.id) this.cursor = frame.id;
    if (frame.event === "delta") this.on.delta(data);
    else if (typeof data.seq === "number") this.on.event(data);
    return frame.event === "SessionRotated" ? this.over(() => {}) : false;
  }

  watchdog() {
    let timer;
    const again = () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.abort.abort(), SILENCE);
    };
    again();
    return { again, stop: () => clearTimeout(timer) };
  }

  pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
