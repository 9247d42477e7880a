/** Rough syntax highlighting: comments, strings, numbers, keywords. Code in an unknown language stays plain. */

import { el } from "../lib/dom.js";

const LONGEST = 40_000;
const STRINGS = String.raw`"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`;
const NUMBERS = String.raw`\b(?:0x[\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\b`;

const family = (comments, words, strings = STRINGS) => {
  const listed = words.trim().split(/\s+/).join("|");
  return new RegExp(
    `(?<comment>${comments})|(?<string>${strings})|(?<number>${NUMBERS})|(?<word>\\b(?:${listed})\\b)`,
    "g",
  );
};

const C_WORDS = `
  abstract as async await bool boolean break byte case catch char class const continue default defer delete do
  double else enum export extends false final finally float fn for from func function go if impl implements
  import in int interface let long loop match mod mut namespace new nil null of override package private
  protected pub public return self short signed sizeof static string struct super switch template this throw
  trait true try type typedef typeof undefined union unsigned use using var virtual void volatile where while
  yield`;
const PYTHON = `
  False None True and as assert async await break case class continue def del elif else except finally for from
  global if import in is lambda match nonlocal not or pass raise return self try while with yield`;
const SHELL = `
  case cd do done echo elif else esac exit export fi for function if in local read return set shift source then
  until while`;
const SQL = `
  ADD ALTER AND AS ASC BEGIN BY CASE COMMIT CREATE DELETE DESC DISTINCT DROP ELSE END EXISTS FROM GROUP HAVING
  IN INDEX INNER INSERT INTO IS JOIN KEY LEFT LIKE LIMIT NOT NULL ON OR ORDER OUTER PRIMARY SELECT SET TABLE
  THEN UNION UNIQUE UPDATE VALUES VIEW WHEN WHERE WITH`;

const SLASH = family(String.raw`\/\/[^\n]*|\/\*[\s\S]*?\*\/`, C_WORDS, `${STRINGS}|\`(?:\\\\.|[^\`\\\\])*\``);
const FAMILIES = [
  [
    "js jsx ts tsx javascript typescript java c h cpp c++ cs csharp go rust rs swift kotlin kt scala php dart css scss",
    SLASH,
  ],
  ["python py pyi", family("#[^\\n]*", PYTHON, String.raw`"""[\s\S]*?"""|'''[\s\S]*?'''|${STRINGS}`)],
  ["sh bash shell zsh console", family("(?<![\\w$])#[^\\n]*", SHELL)],
  [
    "yaml yml toml ini conf dockerfile make makefile ruby rb perl r elixir",
    family("#[^\\n]*", "true false null yes no on off def end do if else unless return FROM RUN COPY CMD ENV WORKDIR"),
  ],
  ["json jsonc", family(String.raw`\/\/[^\n]*`, "true false null")],
  ["sql", family(String.raw`--[^\n]*|\/\*[\s\S]*?\*\/`, `${SQL} ${SQL.toLowerCase()}`)],
];
const BY_NAME = new Map(FAMILIES.flatMap(([names, rule]) => names.split(" ").map((name) => [name, rule])));

/** The code as nodes. */
export function highlighted(text, language) {
  const rule = BY_NAME.get((language || "").toLowerCase());
  if (!rule || text.length > LONGEST) return [text];
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(rule)) {
    const kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    if (found.index > at) nodes.push(text.slice(at, found.index));
    nodes.push(el(`span.hl-${kind}`, {}, found[0]));
    at = found.index + found[0].length;
  }
  nodes.push(text.slice(at));
  return nodes;
}
