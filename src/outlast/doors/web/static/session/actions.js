/** Actions on a whole session. Actions that cannot be undone ask for confirmation first. */

import { changeSession, deleteSession, exportPath, readInfo } from "../lib/api.js";
import { ask } from "../widgets/dialog.js";
import { download } from "../lib/dom.js";
import { tell } from "../lib/event_bus.js";
import { goTo, here } from "../lib/router.js";
import { toast, trying } from "../widgets/toast.js";

export async function rename(session) {
  const answer = await ask({
    title: "Rename",
    fields: [{ name: "title", label: "Title", value: session.summary.title ?? "", required: true }],
    confirm: "Rename",
  });
  if (answer?.title.trim()) await trying(() => changeSession(session.id, { title: answer.title.trim() }));
}

/** Settings of the next turns. Modes above the server's own are not offered. */
async function settings(session) {
  const info = await trying(() => readInfo());
  if (!info || here().id !== session.id) return;
  const { model, persona, plan_mode: plans } = session.summary;
  const mode = session.detail.permission_mode;
  const workflow = session.detail.workflow ?? "";
  const modes = [...new Set([...info.permission_modes, mode])];
  const answer = await ask({
    title: "Model, persona, rights",
    fields: [
      { name: "model", label: "Model", value: model ?? "", placeholder: info.model ?? "the server's" },
      {
        name: "persona",
        label: "Persona",
        type: "select",
        value: persona ?? "",
        options: personaChoices(info.personas, persona),
      },
      {
        name: "permission_mode",
        label: "Permission mode",
        type: "select",
        value: mode,
        options: modes.map((one) => [one, one]),
        hint: "At most what the server was started with.",
      },
      { name: "plan_mode", label: "Plan mode: only reading until you approve a plan", type: "checkbox", value: plans },
      {
        name: "workflow",
        label: "Workflow",
        type: "select",
        value: workflow,
        options: [...(workflow ? [] : [["", "the server's"]]), ["plain", "plain"], ["guided", "guided"]],
        hint: "Plain: the model leads. Guided: plans, checks and verification.",
      },
    ],
    confirm: "Save",
  });
  if (!answer) return;
  const change = {};
  if (answer.model.trim() && answer.model.trim() !== model) change.model = answer.model.trim();
  if (answer.persona && answer.persona !== persona) change.persona = answer.persona;
  if (answer.permission_mode !== mode) change.permission_mode = answer.permission_mode;
  if (answer.plan_mode !== plans) change.plan_mode = answer.plan_mode;
  if (answer.workflow && answer.workflow !== workflow) change.workflow = answer.workflow;
  if (!Object.keys(change).length) return;
  await trying(() => changeSession(session.id, change));
  session.refresh(0);
}

function personaChoices(personas, current) {
  const names = new Set(personas.map((one) => one.name));
  const more = current && !names.has(current) ? [[current, current]] : [];
  return [...(current ? [] : [["", "the server's"]]), ...more, ...personas.map((one) => [one.name, one.name])];
}

export async function fork(session, row = null) {
  const forked = await trying(() => session.act("fork", row ? { at: row.seq } : undefined));
  if (!forked) return;
  toast("This is a fork; the other session stays as it is.");
  tell("list-changed");
  goTo(`#/s/${forked.session_id ?? forked.id}`);
}

export async function rewind(session, row) {
  const answer = await ask({
    title: "Rewind to before this message?",
    text: "What was said from here on is set aside; it stays in the log, and the rewind can be undone.",
    fields: [{ name: "files", label: "Put the files back as they were, too", type: "checkbox", value: false }],
    confirm: "Rewind",
    danger: true,
  });
  if (!answer) return false;
  const done = await trying(() => session.act("rewind", { seq: row.seq, keep: false, files: answer.files }));
  return done !== undefined;
}

async function clear(session) {
  const answer = await ask({
    title: "Clear this session?",
    text: "Its messages are archived: kept and exported, but neither shown nor sent to the model. The session goes on.",
    confirm: "Clear",
    danger: true,
  });
  if (answer) await trying(() => session.act("clear"));
}

async function end(session) {
  const answer = await ask({
    title: "End this session?",
    text: "A running turn is stopped. It can be reopened.",
    confirm: "End",
  });
  if (answer) await trying(() => session.act("end"));
}

async function remove(session) {
  const answer = await ask({
    title: "Delete this session for good?",
    text: `“${session.summary.title ?? "Untitled"}” and everything in it is removed. This cannot be undone.`,
    confirm: "Delete",
    danger: true,
  });
  if (!answer) return;
  if ((await trying(() => deleteSession(session.id).then(() => true))) === undefined) return;
  toast("The session is deleted.");
  tell("list-changed");
  goTo("#/");
}

async function plain(session, verb, done) {
  if ((await trying(() => session.act(verb).then(() => true))) !== undefined && done) toast(done);
}

/** The entries of the session's menu. */
export function sessionMenu(session, on) {
  const { state, activity } = session.summary;
  const isOpen = state === "active";
  const working = activity === "running" || activity === "approval";
  return [
    { label: "Rename …", act: () => rename(session) },
    isOpen ? { label: "Model, persona, rights …", act: () => settings(session) } : undefined,
    { label: "Fork", act: () => fork(session) },
    null,
    isOpen
      ? {
          label: "Compact",
          act: () => plain(session, "compact", working ? "It is compacted at the next step." : "Compacted."),
        }
      : undefined,
    isOpen ? { label: "Undo the last compaction", act: () => plain(session, "uncompact") } : undefined,
    isOpen ? { label: "Clear …", act: () => clear(session) } : undefined,
    { label: session.showsArchived ? "Hide archived messages" : "Show archived messages", act: on.toggleArchived },
    null,
    isOpen ? { label: "End …", act: () => end(session) } : undefined,
    state === "ended" ? { label: "Reopen", act: () => plain(session, "reopen") } : undefined,
    state === "archived"
      ? { label: "Unarchive", act: () => plain(session, "unarchive") }
      : { label: "Archive", act: () => plain(session, "archive", "Archived. It is under “Archived” in the list.") },
    null,
    ...[
      ["md", "Export as Markdown"],
      ["html", "Export as HTML"],
      ["jsonl", "Export as JSON lines"],
    ].map(([format, label]) => ({ node: download(exportPath(session.id, format), label) })),
    null,
    { label: "Delete …", act: () => remove(session), danger: true },
  ].filter((item) => item !== undefined);
}
