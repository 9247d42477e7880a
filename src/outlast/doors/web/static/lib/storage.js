/** Data kept in this browser: drafts, unsent messages, choices. Without storage the page still works. */

const PREFIX = "outlast.";

export function kept(name, otherwise = null) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** Remember it; nothing, an empty text and an empty list are forgotten. False when there is no room for it. */
export function keep(name, value) {
  const empty = value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length);
  try {
    if (empty) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** The names that begin so. */
export function keptNames(beginning) {
  const names = [];
  try {
    for (let n = 0; n < localStorage.length; n++) {
      const name = localStorage.key(n);
      if (name.startsWith(PREFIX + beginning)) names.push(name.slice(PREFIX.length));
    }
  } catch {
    return [];
  }
  return names;
}
