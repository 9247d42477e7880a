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

/** Store a value; null and empty values are removed. False if storage is full. */
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

/** The stored names with this prefix. */
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
