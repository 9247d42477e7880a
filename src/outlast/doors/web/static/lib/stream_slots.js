/** Slots for long connections. A browser opens at most six connections to one server, over all its tabs; if streams
 *  took them all, the page could not be loaded again. So at most four tabs follow live, and the others poll. */

const PLACES = 4;

/** A function that releases the slot; null if all are taken. Without Web Locks every tab gets one. */
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
