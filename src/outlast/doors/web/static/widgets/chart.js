/** Charts without a library: stacked bars over time, and one filled bar. Colours come from the style sheet. */

import { el, svg } from "../lib/dom.js";
import { short } from "../lib/time_format.js";

const NARROW = "(max-width: 760px)";
const HEIGHT = 200;
const LEFT = 44;
const BOTTOM = 24;
const TOP = 10;

/** Stacked bars. `bars`: [{label, title, values: [..]}], `series`: [{name, look}] in the order of the values. */
export function barChart(bars, series, { name, unit = "" }) {
  const width = widthHere();
  const most = niceTop(Math.max(1, ...bars.map((bar) => sum(bar.values))));
  const height = HEIGHT - BOTTOM - TOP;
  const step = (width - LEFT) / bars.length;
  const wide = Math.max(1, Math.min(28, step * 0.7));
  const y = (value) => TOP + height - (value / most) * height;
  const lines = [0, 0.5, 1].map((part) => [
    svg("line.grid", { x1: LEFT, x2: width, y1: y(most * part), y2: y(most * part) }),
    svg("text.tick", { x: LEFT - 8, y: y(most * part) + 4, "text-anchor": "end" }, short(Math.round(most * part))),
  ]);
  const labelled = Math.ceil(bars.length / (width / 90));
  const drawn = bars.map((bar, n) => {
    const middle = LEFT + step * (n + 0.5);
    let at = 0;
    const pieces = bar.values.map((value, m) => {
      const piece = svg(`rect.${series[m].look}`, {
        x: middle - wide / 2,
        width: wide,
        y: y(at + value),
        height: Math.max(0, y(at) - y(at + value)),
      });
      at += value;
      return piece;
    });
    const label =
      n % labelled === 0 ? svg("text.tick", { x: middle, y: HEIGHT - 6, "text-anchor": "middle" }, bar.label) : null;
    return svg(
      "g.bar",
      {},
      svg("title", {}, bar.title),
      svg("rect.reach", { x: middle - step / 2, width: step, y: TOP, height, fill: "transparent" }),
      pieces,
      label,
    );
  });
  const total = series.map((one, m) => `${one.name} ${short(sum(bars.map((bar) => bar.values[m])))}${unit}`).join(", ");
  return el(
    "figure.chart",
    {},
    svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `${name}: ${total}` }, lines, drawn),
    el(
      "figcaption",
      {},
      series.map((one) => el("span.legend", {}, el(`span.swatch.${one.look}`), one.name)),
    ),
  );
}

/** A bar filled by parts, with a mark at `mark`. `parts`: [{name, value, look}]. */
export function filledBar(given, whole, { name, mark }) {
  const width = widthHere();
  const parts = given.filter((part) => part.value > 0);
  const total = Math.max(whole, sum(parts.map((part) => part.value)), 1);
  let at = 0;
  const pieces = parts.map((part) => {
    const piece = svg(`rect.${part.look}`, {
      x: (at / total) * width,
      y: 6,
      width: Math.max(1, (part.value / total) * width),
      height: 18,
    });
    at += part.value;
    return svg("g", {}, svg("title", {}, `${part.name}: about ${part.value.toLocaleString()} tokens`), piece);
  });
  const x = mark ? (mark / total) * width : null;
  const told = `${name}: ${parts.map((part) => `${part.name} ${short(part.value)}`).join(", ")}`;
  return el(
    "figure.chart.flat",
    {},
    svg(
      "svg",
      { viewBox: `0 0 ${width} 30`, preserveAspectRatio: "none", role: "img", "aria-label": told },
      svg("rect.empty-part", { x: 0, y: 6, width: width, height: 18 }),
      pieces,
      x ? svg("line.limit", { x1: x, x2: x, y1: 0, y2: 30 }) : null,
    ),
    el(
      "figcaption",
      {},
      parts.map((part) =>
        el("span.legend", {}, el(`span.swatch.${part.look}`), `${part.name} `, el("b", {}, short(part.value))),
      ),
      mark ? el("span.legend", {}, el("span.swatch.limit"), "compacts at ", el("b", {}, short(mark))) : null,
    ),
  );
}

/** So that what is written in it has its size on a phone, too. */
const widthHere = () => (matchMedia(NARROW).matches ? 380 : 720);

const sum = (values) => values.reduce((total, value) => total + value, 0);

function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 10].map((factor) => factor * power).find((top) => top >= value);
}
