/** Client of the HTTP API, one function per route. Functions return the decoded JSON; if the server refuses a request,
 *  they throw an `ApiError` with the server's sentence. */

import { tell } from "./event_bus.js";

export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }

  /** Whether the same request may well succeed later: the server is away, busy or starting. */
  get passing() {
    return this.status === 0 || this.status === 401 || this.status === 429 || this.status >= 500;
  }
}

function addressOf(path, query = {}) {
  const url = new URL(path, location.origin);
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(key, value);
  }
  return url;
}

async function detailOf(response) {
  try {
    const { detail } = await response.json();
    if (typeof detail === "string" && detail) return detail;
  } catch {
    // no JSON: the status has to do
  }
  return `The server answered ${response.status} ${response.statusText}`.trim();
}

/** One request; `{data, headers}`. Status 0 = the server could not be reached. */
export async function request(method, path, { query, body, signal } = {}) {
  let response;
  try {
    response = await fetch(addressOf(path, query), {
      method,
      signal,
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server cannot be reached; the page tries again.");
  }
  if (response.status === 401) tell("signed-out");
  if (!response.ok) throw new ApiError(response.status, await detailOf(response));
  tell("reached");
  const text = await response.text();
  return { data: text ? JSON.parse(text) : null, headers: response.headers };
}

const of = (id) => `/api/sessions/${encodeURIComponent(id)}`;
const get = async (path, query, signal) => (await request("GET", path, { query, signal })).data;
const post = async (path, body) => (await request("POST", path, { body })).data;

/** A page of sessions: `{rows, cursor}`. */
export async function listSessions(query, signal) {
  const { data, headers } = await request("GET", "/api/sessions", { query, signal });
  return { rows: data, cursor: headers.get("X-Next-Cursor") };
}

export const createSession = (wanted) => post("/api/sessions", wanted);
export const readSession = (id, query, signal) => get(of(id), query, signal);
export const postMessage = (id, message) => post(`${of(id)}/messages`, message);
/** end, reopen, interrupt, continue, retry, clear, fork, rewind, unrewind, compact, uncompact, archive, unarchive. */
export const act = (id, verb, body) => post(`${of(id)}/${verb}`, body);
export const changeSession = async (id, change) => (await request("PATCH", of(id), { body: change })).data;
export const deleteSession = async (id) => (await request("DELETE", of(id))).data;
export const readApprovals = (id, signal) => get(`${of(id)}/approvals`, {}, signal);
export const answerApproval = (id, answer) => post(`${of(id)}/approvals`, answer);
/** events, timeline, ledger, prompts, usage, tree. */
export const readView = (id, view, query, signal) => get(`${of(id)}/${view}`, query, signal);
export const searchAll = (query, signal) => get("/api/search", query, signal);
export const readInfo = (signal) => get("/api/info", {}, signal);
export const readStats = (signal) => get("/api/stats", {}, signal);
export const parseMarkdown = (texts) => post("/api/markdown", { texts });
export const exportPath = (id, format) => `${of(id)}/export?format=${format}`;
export const streamAddress = (id, follow) => addressOf(`${of(id)}/stream`, follow ? {} : { follow: "false" });
