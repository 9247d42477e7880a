/** Icons of the buttons: strokes on a 24-unit grid, in the colour of the text next to them. */

import { svg } from "./dom.js";

const STROKES = {
  plus: ["M12 5v14", "M5 12h14"],
  search: ["M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14Z", "m20 20-4-4"],
  send: ["M12 19V5", "m6 11 6-6 6 6"],
  stop: ["M7 7h10v10H7z"],
  more: ["M5 12h.01", "M12 12h.01", "M19 12h.01"],
  back: ["M19 12H5", "m11 18-6-6 6-6"],
  down: ["M12 5v14", "m6 13 6 6 6-6"],
  chevron: ["m9 6 6 6-6 6"],
  check: ["m5 12.5 4.5 4.5L19 7.5"],
  cross: ["M6 6l12 12", "M18 6 6 18"],
  copy: ["M9 9h11v11H9z", "M5 15H4V4h11v1"],
  fork: ["M7 4v16", "M7 14c0-4 10-2 10-7", "M17 7V4", "m4.5 6.5 2.5-2.5 2.5 2.5", "m14.5 6.5 2.5-2.5 2.5 2.5"],
  rewind: ["M4 12a8 8 0 1 0 2.6-5.9L4 8.5", "M4 4v4.5h4.5"],
  clip: ["m20 11-8.5 8.5a5 5 0 0 1-7-7L13 4a3.4 3.4 0 0 1 4.8 4.8l-8.5 8.4a1.7 1.7 0 0 1-2.4-2.4l7.8-7.7"],
  moon: ["M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z"],
  sun: [
    "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8Z",
    "M12 2.5v2M12 19.5v2M4.2 4.2l1.5 1.5M18.3 18.3l1.5 1.5M2.5 12h2M19.5 12h2M4.2 19.8l1.5-1.5M18.3 5.7l1.5-1.5",
  ],
  screen: ["M4 5h16v11H4z", "M9 20h6", "M12 16v4"],
  help: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Z", "M9.5 9.5a2.5 2.5 0 1 1 3.6 2.2c-.7.4-1.1 1-1.1 1.8", "M12 17h.01"],
  warn: ["M12 4 2.8 19.5h18.4L12 4Z", "M12 10v4", "M12 17h.01"],
  hand: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Z", "M12 7.5v5", "M12 16h.01"],
  spark: ["M12 3v5M12 16v5M3 12h5M16 12h5", "m6 6 3 3M15 15l3 3M18 6l-3 3M9 15l-3 3"],
  terminal: ["m5 8 4 4-4 4", "M12 17h7"],
  file: ["M6 3h8l4 4v14H6z", "M14 3v4h4"],
  pencil: ["m4 20 1-4L16 5l3 3L8 19l-4 1Z"],
  globe: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Z", "M3 12h18", "M12 3c3 3 3 15 0 18", "M12 3c-3 3-3 15 0 18"],
  list: ["M9 6h11M9 12h11M9 18h11", "M4 6h.01M4 12h.01M4 18h.01"],
  branch: [
    "M6 4v10",
    "M6 20a3 3 0 1 0 0-6 3 3 0 0 0 0 6Z",
    "M18 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6Z",
    "M18 10c0 4-6 3-9 5.5",
  ],
  chart: ["M4 20h16", "M7 16v-5M12 16V6M17 16v-8"],
  bolt: ["M13 3 5 14h6l-1 7 8-11h-6l1-7Z"],
  archive: ["M4 5h16v4H4z", "M6 9v10h12V9", "M10 13h4"],
  image: ["M4 5h16v14H4z", "m4 16 5-5 4 4 3-3 4 4", "M15 9h.01"],
  play: ["M8 5v14l11-7-11-7Z"],
};

/** A decorative icon: its button carries the name. */
export function icon(name, extra = "") {
  const shape = svg(
    "svg.icon",
    { viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" },
    STROKES[name].map((d) => svg("path", { d })),
  );
  if (extra) shape.classList.add(extra);
  return shape;
}
