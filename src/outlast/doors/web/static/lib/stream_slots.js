/** Places for long connections. A browser opens six to one server, over all its tabs; a page that took them all could
 *  not even be loaded once more. So at most four tabs follow live, and the others ask again and again. */

const PLACES = 4;

/** A function that gives the place back; null when all are taken. Without locks every tab just takes one. */
export async function takeSlot() {
  if (!navigator.locks) return () => {};
  for (let n = 0; n < PLACES; n++) {
    const release = await tryOne(`outlast-stream-${n}`);
    if (release) return release;
  }
  return null;
}

function tryOne(name) {
  return new Promise((resolve) => {
    navigator.locks
      .request(name, { ifAvailable: true }, (lock) => {
        if (lock) return new Promise((release) => resolve(release));
        resolve(null);
        return undefined;
      })
      .catch(() => resolve(null));
  });
}
