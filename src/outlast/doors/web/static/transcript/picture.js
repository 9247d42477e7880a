/** Pictures of a session: loaded only from its own log. */

import { el } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { readable } from "../lib/invisible.js";

const TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** A picture of an event, in the shape of the API's message pages. */
export function imageOf(part) {
  return { type: "image", media_type: part.media_type, alt: part.alt, data: part.data?.$bytes, source: part.url };
}

/** The picture, or its description if it cannot be shown. */
export function picture(part) {
  const name = readable(part.alt || "picture");
  const address = ownAddress(part);
  if (!address) {
    const told = part.source ? `${name} (not loaded: ${readable(part.source)})` : name;
    return el("span.attached", {}, icon("image"), told);
  }
  const image = el("img.picture");
  image.alt = name;
  image.loading = "lazy";
  image.decoding = "async";
  image.src = address;
  return image;
}

function ownAddress(part) {
  if (!TYPES.has(part.media_type)) return null;
  if (part.data && /^[A-Za-z0-9+/]+={0,2}$/.test(part.data)) return `data:${part.media_type};base64,${part.data}`;
  return typeof part.url === "string" && part.url.startsWith("/api/") ? part.url : null;
}
