/** Events that several parts of the page listen to: sign-in and sign-out, a changed session, navigation. */

const hearers = new Map();

export function hear(name, hearer) {
  if (!hearers.has(name)) hearers.set(name, new Set());
  hearers.get(name).add(hearer);
  return () => hearers.get(name).delete(hearer);
}

export function tell(name, detail) {
  for (const hearer of [...(hearers.get(name) ?? [])]) hearer(detail);
}
