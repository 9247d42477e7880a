/** Builds elements from plain values. Text always becomes a text node: callers cannot pass markup, a style or a handler
 *  as a string. An attribute that is not on the list is a bug in our own code. */

const SVG = "http://www.w3.org/2000/svg";
const words = (text) => new Set(text.trim().split(/\s+/));
const ATTRIBUTES = words(`
  id role title type for name placeholder rows tabindex dir accept autocomplete spellcheck enterkeyhint maxlength
  scope start value download`);
const SWITCHES = words("hidden disabled checked multiple selected open required");
const SHAPES = words(`
  role viewBox width height d x y x1 y1 x2 y2 cx cy r rx fill transform text-anchor preserveAspectRatio tabindex
  focusable`);
const isAbout = (key) => /^(?:aria|data)-[a-z]+$/.test(key);

/** An element: `el("button.quiet.small", {type: "button", on: {click}}, "Stop")`. Children: nodes, texts, nothing. */
export function el(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.classList.add(...classes);
  for (const [key, value] of Object.entries(attributes)) set(node, key, value);
  return fill(node, children);
}

function set(node, key, value) {
  if (value === undefined || value === null) return;
  if (key === "on") {
    for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
  } else if (key === "class") {
    node.classList.add(...String(value).split(" ").filter(Boolean));
  } else if (SWITCHES.has(key)) {
    node.toggleAttribute(key, Boolean(value));
  } else if (ATTRIBUTES.has(key) || isAbout(key)) {
    node.setAttribute(key, String(value));
  } else {
    throw new TypeError(`attribute ${key} is not allowed`);
  }
}

/** A shape of a drawing. */
export function svg(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElementNS(SVG, tag);
  if (classes.length) node.classList.add(...classes);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null) continue;
    if (key === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (SHAPES.has(key) || isAbout(key)) node.setAttribute(key, String(value));
    else throw new TypeError(`attribute ${key} is not allowed`);
  }
  return fill(node, children);
}

function fill(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** Put these in the place of all that is there. */
export function replace(node, ...children) {
  node.replaceChildren();
  return fill(node, children);
}

/** A link to another page; only http, https and mailto, and the other page learns nothing of ours. */
export function outside(address, ...children) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return el("span.address", { title: address }, ...children);
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) {
    return el("span.address", { title: address }, ...children);
  }
  const link = el("a", { title: address }, ...children);
  link.href = url.href;
  link.target = "_blank";
  link.rel = "noopener noreferrer nofollow external";
  link.referrerPolicy = "no-referrer";
  return link;
}

/** A link to a place in this page. */
export function inside(place, attributes, ...children) {
  if (!place.startsWith("#/")) throw new TypeError(`${place} is not a place of this page`);
  const link = el("a", attributes, ...children);
  link.href = place;
  return link;
}

/** An own file to download. */
export function download(path, ...children) {
  const link = el("a", { download: "" }, ...children);
  link.href = new URL(path, location.origin).href;
  return link;
}
