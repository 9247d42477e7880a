/** Spells out characters that are invisible or change the text direction, so that users see all that they approve. */

import { el } from "./dom.js";

const UNSEEN = String.raw`\p{Cf}\p{Cc}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}`;
const BLANK = String.raw`\u034f\u115f\u1160\u17b4\u17b5\u180e\u2800\u3164\uffa0\ufe00-\ufe0e\u{e0100}-\u{e01ef}`;
const HIDDEN = new RegExp(`[${UNSEEN}${BLANK}]`, "u");
const TURNING = /[\u202a-\u202e\u2066-\u2069\u061c\u200e\u200f]/u;
const CONTROL = /[\p{Cc}\p{Cs}]/u;
const STRANGE = /[\u202a-\u202e\u2066-\u2069\u061c\u200e\u200f\p{Cs}\u0000-\u0008\u000b-\u001f\u007f-\u009f]/u;

const spelled = (character) => `<U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`;

/** For names, outputs and code: control characters and changes of direction are spelled out, the rest is left alone. */
export function readable(text) {
  const lines = String(text ?? "").replace(/\r\n?/g, "\n");
  if (!STRANGE.test(lines)) return lines;
  let out = "";
  for (const character of lines) {
    const harmless = character === "\n" || character === "\t" || !(TURNING.test(character) || CONTROL.test(character));
    out += harmless ? character : spelled(character);
  }
  return out;
}

/** On one line, every character visible, cut where it is too long. */
export function oneLine(text, longest = 120) {
  const line = exact(
    String(text ?? "")
      .split(/\s+/u)
      .filter(Boolean)
      .join(" "),
  );
  const characters = [...line];
  return characters.length <= longest ? line : `${characters.slice(0, longest - 1).join("")}…`;
}

/** For approvals: every invisible character is spelled out, also tabs and spaces at line ends. */
export function exact(text) {
  return exactPieces(text)
    .map(([piece]) => piece)
    .join("");
}

/** The same as nodes, with marks on the spelled-out characters. */
export function exactNodes(text) {
  return exactPieces(text).map(([piece, strange]) => (strange ? el("mark.spelled", {}, piece) : piece));
}

function exactPieces(text) {
  const pieces = [];
  const add = (piece, strange) => {
    const last = pieces[pieces.length - 1];
    if (last && last[1] === strange) last[0] += piece;
    else pieces.push([piece, strange]);
  };
  for (const [n, line] of String(text ?? "")
    .split("\n")
    .entries()) {
    if (n) add("\n", false);
    const bare = line.replace(/ +$/u, "");
    for (const character of bare) {
      if (character === "\t") add("<TAB>", true);
      else if (HIDDEN.test(character)) add(spelled(character), true);
      else add(character, false);
    }
    if (bare.length < line.length) add("·".repeat(line.length - bare.length), true);
  }
  return pieces;
}
