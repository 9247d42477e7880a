/** Things that several parts want to hear of: who signed in or out, a changed session, a place that was gone to. */

const hearers = new Map();

export function hear(name, hearer) {
  if (!hearers.has(name)) hearers.set(name, new Set());
  hearers.get(name).add(hearer);
  return () => hearers.get(name).delete(hearer);
}

export function tell(name, detail) {
  for (const hearer of [...(hearers.get(name) ?? [])]) hearer(detail);
}
