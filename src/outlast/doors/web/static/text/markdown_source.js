/** Cache of Markdown trees by text, requested in batches. The server parses; see `doors/web/markdown.py`. */

import { parseMarkdown } from "../lib/api.js";

const TEXTS = 100;
const CHARACTERS = 150_000;
const LONGEST = 64 * 1024;
const REMEMBERED = 4_000_000;

const known = new Map();
let size = 0;
let waiting = new Map();
let underWay = false;

/** The tree of a text, if cached. */
export function knownTree(text) {
  const tree = known.get(text);
  if (tree) {
    known.delete(text); // the newest come last
    known.set(text, tree);
  }
  return tree ?? (needsNone(text) ? plain(text) : undefined);
}

/** The tree of a text. */
export function treeOf(text) {
  const tree = knownTree(text);
  if (tree) return Promise.resolve(tree);
  if (!waiting.has(text)) {
    let settle;
    const promise = new Promise((resolve) => (settle = resolve));
    waiting.set(text, { promise, settle });
    queueMicrotask(send);
  }
  return waiting.get(text).promise;
}

/** Load these trees; resolves when they are loaded, or after a timeout. */
export async function prepare(texts, patience = 400) {
  const missing = texts.filter((text) => text && !knownTree(text));
  if (!missing.length) return;
  await Promise.race([Promise.all(missing.map(treeOf)), new Promise((resolve) => setTimeout(resolve, patience))]);
}

/** Short texts need no parser; texts over the limit are shown plain. */
function needsNone(text) {
  return text.length > LONGEST || (/^[\p{L}\p{N} ,.!?'’]*$/u.test(text) && !/^\s*\d+\.|^ {4}|^\s|\s$/u.test(text));
}

function plain(text) {
  return text.length > LONGEST ? [{ tag: "plain", text, line: 0 }] : [{ tag: "p", nodes: [text], line: 0 }];
}

async function send() {
  if (underWay || !waiting.size) return;
  underWay = true;
  const batch = new Map();
  let characters = 0;
  for (const [text, one] of waiting) {
    if (batch.size === TEXTS || (batch.size && characters + text.length > CHARACTERS)) break;
    batch.set(text, one);
    characters += text.length;
  }
  for (const text of batch.keys()) waiting.delete(text);
  try {
    const trees = await parseMarkdown([...batch.keys()]);
    for (const [n, [text, one]] of [...batch].entries()) {
      remember(text, trees[n]);
      one.settle(trees[n]);
    }
  } catch (error) {
    later(batch, error);
  } finally {
    underWay = false;
    if (waiting.size) queueMicrotask(send);
  }
}

/** The server is unreachable: texts stay plain and are requested again later. */
function later(batch, error) {
  if (!error.passing) {
    for (const [text, one] of batch) one.settle([{ tag: "plain", text, line: 0 }]);
    return;
  }
  setTimeout(() => {
    for (const [text, one] of batch) {
      if (!waiting.has(text)) waiting.set(text, one);
      else waiting.get(text).promise.then(one.settle);
    }
    send();
  }, 1500);
}

function remember(text, tree) {
  known.set(text, tree);
  size += text.length;
  for (const oldest of known.keys()) {
    if (size <= REMEMBERED) break;
    known.delete(oldest);
    size -= oldest.length;
  }
}
