/** Draws a Markdown tree as elements. The tags are a closed set; anything else in a tree is shown as text. */

import { codeBlock } from "./code_block.js";
import { el, outside } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { readable } from "../lib/invisible.js";
import { knownTree, treeOf } from "./markdown_source.js";

const SIMPLE = new Set([
  "p",
  "em",
  "strong",
  "del",
  "ul",
  "blockquote",
  "thead",
  "tbody",
  "tr",
  "h1",
  "h2",
  "h3",
  "h4",
  "h5",
  "h6",
]);
// Overrides and isolates are spelled out everywhere; marks and joiners belong to how several scripts are written.
const OVERRIDES = /[\u202a-\u202e\u2066-\u2069]/gu;

/** A text as Markdown: at once if its tree is cached, else plain until the tree arrives. */
export function markdown(text) {
  const node = el("div.prose", { dir: "auto" });
  const tree = knownTree(text);
  if (tree) {
    node.append(...drawn(tree));
  } else {
    node.classList.add("raw");
    node.textContent = prose(text);
    treeOf(text).then((found) => {
      node.classList.remove("raw");
      node.replaceChildren(...drawn(found));
    });
  }
  return node;
}

export const drawn = (nodes) => nodes.map(draw);

function prose(text) {
  return String(text).replace(OVERRIDES, (character) => `<U+${character.codePointAt(0).toString(16).toUpperCase()}>`);
}

function draw(node) {
  if (typeof node === "string") return document.createTextNode(prose(node));
  const below = () => drawn(node.nodes ?? []);
  if (SIMPLE.has(node.tag)) return el(heading(node.tag), { dir: node.tag === "p" ? "auto" : undefined }, below());
  switch (node.tag) {
    case "ol":
      return el("ol", { start: node.start }, below());
    case "li":
      return item(node, below());
    case "th":
    case "td":
      return el(node.tag, { class: node.align ? `to-${node.align === "right" ? "right" : "center"}` : "" }, below());
    case "table":
      return el("div.wide", { tabindex: "0", role: "region", "aria-label": "Table" }, el("table", {}, below()));
    case "code":
      return el("code", {}, readable(node.text));
    case "pre":
      return codeBlock(node.text, node.language);
    case "plain":
      return el("div.raw", {}, prose(node.text));
    case "a":
      return node.href ? outside(node.href, below()) : el("span.address", { title: node.address }, below());
    case "image":
      return picture(node);
    case "br":
    case "hr":
      return el(node.tag);
    default:
      return el("span", {}, prose(node.text ?? ""), below());
  }
}

/** Headings of a reply get levels below those of the page. */
function heading(tag) {
  return /^h[1-6]$/.test(tag) ? `h${Math.min(6, Number(tag[1]) + 2)}.level-${tag[1]}` : tag;
}

function item(node, below) {
  if (node.checked === undefined) return el("li", {}, below);
  const box = el("input", {
    type: "checkbox",
    disabled: true,
    checked: node.checked,
    "aria-label": node.checked ? "done" : "to do",
  });
  return el("li.task", {}, box, el("span", {}, below));
}

/** A picture is not loaded: a request would tell its server what the user reads. */
function picture(node) {
  const shown = [icon("image", "inline"), prose(node.text)];
  return node.href ? outside(node.href, shown) : el("span.address", { title: node.address }, shown);
}
