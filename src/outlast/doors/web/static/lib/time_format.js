/** Formats times for people. The API sends microseconds since 1970; texts and other units are accepted too. */

export function dateOf(value) {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return new Date(value);
  if (value > 1e14) return new Date(value / 1000);
  return new Date(value > 1e11 ? value : value * 1000);
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** "just now", "5 min", "3 h", "yesterday", "12 Mar". */
export function ago(value, now = Date.now()) {
  const date = dateOf(value);
  if (!date || Number.isNaN(date.getTime())) return "";
  const passed = now - date.getTime();
  if (passed < MINUTE) return "just now";
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h`;
  if (passed < 2 * DAY) return "yesterday";
  if (passed < 7 * DAY) return date.toLocaleDateString(undefined, { weekday: "long" });
  const sameYear = date.getFullYear() === new Date(now).getFullYear();
  return date.toLocaleDateString(undefined, { day: "numeric", month: "short", year: sameYear ? undefined : "numeric" });
}

export function whole(value) {
  const date = dateOf(value);
  return date && !Number.isNaN(date.getTime()) ? date.toLocaleString() : "";
}

export function clock(value) {
  const date = dateOf(value);
  return date && !Number.isNaN(date.getTime())
    ? date.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })
    : "";
}

/** The local day as a number, for comparing; null if there is none. */
export function dayOf(value) {
  const date = dateOf(value);
  if (!date || Number.isNaN(date.getTime())) return null;
  return date.getFullYear() * 10_000 + (date.getMonth() + 1) * 100 + date.getDate();
}

/** "Tuesday, 3 March". */
export function dayWords(value) {
  const date = dateOf(value);
  const sameYear = date.getFullYear() === new Date().getFullYear();
  return date.toLocaleDateString(undefined, {
    weekday: "long",
    day: "numeric",
    month: "long",
    year: sameYear ? undefined : "numeric",
  });
}

export function seconds(value) {
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

/** 1234567 as "1.2M". */
export function short(count) {
  if (count < 1000) return String(count);
  if (count < 10_000) return `${(count / 1000).toFixed(1)}k`;
  if (count < 1_000_000) return `${Math.round(count / 1000)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}
