/** Router: keeps the current location in the fragment: `#/`, `#/s/<id>`, `#/s/<id>/<view>`, `#/s/<id>/at/<seq>`,
 *  `#/stats`. A link only navigates. It never carries a message, a setting or a command. */

const ID = /^[a-z2-7]{6,64}$/;
export const VIEWS = ["transcript", "timeline", "ledger", "usage", "tree"];

export function placeOf(hash) {
  const [, kind, id, view, seq] = hash.split("/");
  if (kind === "stats") return { kind: "stats" };
  if (kind !== "s" || !ID.test(id ?? "")) return { kind: "home" };
  if (view === "at" && /^\d{1,15}$/.test(seq ?? ""))
    return { kind: "session", id, view: "transcript", at: Number(seq) };
  return { kind: "session", id, view: VIEWS.includes(view) ? view : "transcript" };
}

export const here = () => placeOf(location.hash);

export function goTo(hash) {
  if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
}

export function onPlace(hearer) {
  addEventListener("hashchange", () => hearer(here()));
  hearer(here());
}
