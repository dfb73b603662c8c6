/* Charts: a heat map with percentiles, and bars over time. Each mark is a link; a part of a heat map can be dragged. */
import { setAttributes, shape } from "./elements.js";
import { formatDuration, formatTime } from "./formats.js";

const LEFT = 84, RIGHT = 46, TICKS = 20;
const room = (width) => Math.max(120, width - LEFT - RIGHT);
const link = (href, name, label, ...inside) => shape("a", { href, class: name, tabindex: -1, "aria-label": label }, ...inside);

/** Times below a chart; relative times count from its start. */
const times = ({ from, width, parts }, pixels, y) => {
  const count = Math.max(1, Math.min(6, Math.floor(room(pixels) / 130)));
  return Array.from({ length: count + 1 }, (_, at) => {
    const x = LEFT + at / count * room(pixels), us = Math.round(from + at / count * width * parts);
    return shape("text", { class: "tick", x, y, "text-anchor": at === 0 ? "start" : at === count ? "end" : "middle" }, formatTime(us, from));
  });
};

/**
 * How many responses had which latency when, darker for more; median and p99 as lines.
 * @param api the API whose responses they are, empty for all
 * @param filterOf returns the address of the frames of `(part from, part to, level from, level to)`, ends not included
 * @param go is called with the address of a part that was dragged
 */
export const heatMap = (data, pixels, api, filterOf, go) => {
  const { heat, bounds, percentiles, parts } = data, levels = heat.map(([, level]) => level), low = Math.max(0, Math.min(...levels) - 1), high = Math.max(...levels) + 2;
  const most = Math.max(...heat.map(([, , count]) => count)), cell = pixels < 620 ? 10 : 13, height = (high - low) * cell, wide = room(pixels) / parts;
  const x = (part) => LEFT + part * wide, y = (level) => height - (level - low) * cell, exact = (us) => y(2 * Math.log2(Math.max(us, 1)));
  const span = (level) => `${formatDuration(bounds[level])} to ${formatDuration(bounds[level + 1])}`;
  const marks = heat.map(([part, level, count]) => {
    const label = `${count.toLocaleString("en")} × ${api ? `${api}, ` : ""}${span(level)}, answered at ${formatTime(data.from + part * data.width, data.from)}`;
    return link(filterOf(part, part + 1, level, level + 1), "cell", label,
      shape("rect", { x: x(part), y: y(level + 1), width: Math.max(1.5, wide - 0.5), height: cell - 1, "fill-opacity": (0.22 + 0.78 * Math.log(count + 1) / Math.log(most + 1)).toFixed(3) }, shape("title", {}, label)));
  });
  /* Without uprights: where latencies are of two kinds, medians jump between them. */
  const line = (which) => percentiles.map((found, part) => found ? `M${x(part).toFixed(1)} ${exact(found[which]).toFixed(1)}h${wide.toFixed(1)}` : "").join("");
  const last = percentiles.findLast((found) => found), ends = [exact(last[0]) + 4, exact(last[1]) + 4];
  if (ends[0] - ends[1] < 12) ends[1] = ends[0] - 12;
  const axis = [];
  for (let us = 1; us < 1e12; us *= 10) {
    const at = exact(us);
    if (at < 4 || at > height) continue;
    axis.push(shape("line", { class: "grid", x1: LEFT, x2: pixels - RIGHT, y1: at, y2: at }), shape("text", { class: "tick", x: LEFT - 6, y: at + 4, "text-anchor": "end" }, us < 1000 ? `${us} µs` : us < 1e6 ? `${us / 1e3} ms` : `${us / 1e6} s`));
  }
  const brush = shape("rect", { class: "brush", visibility: "hidden" });
  const made = shape("svg", { width: pixels, height: height + TICKS, viewBox: `0 0 ${pixels} ${height + TICKS}`, role: "group", "aria-label": "Latency over time", class: "heat" },
    axis, marks, shape("path", { class: "p99", d: line(1) }), shape("path", { class: "p50", d: line(0) }),
    shape("text", { class: "tick", x: pixels - RIGHT + 4, y: ends[0] }, "p50"), shape("text", { class: "tick", x: pixels - RIGHT + 4, y: ends[1] }, "p99"), brush, times(data, pixels, height + 14));
  select(made, brush, height, (left, right, top, bottom) => {
    const part = (at) => (at - LEFT) / wide, level = (at) => low + (height - at) / cell;
    const [a, b] = [Math.max(0, Math.floor(part(left))), Math.min(parts, Math.ceil(part(right)))], [c, d] = [Math.max(low, Math.floor(level(bottom))), Math.min(high, Math.ceil(level(top)))];
    if (b > a && d > c) go(filterOf(a, b, c, d));
  });
  return made;
};

/** Calls `done(left, right, top, bottom)` with what was dragged over a picture, `height` without its times. */
const select = (picture, brush, height, done) => {
  let start = null, dragged = false, whole = 0;
  const at = (event) => { const box = picture.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  /* A finger that moves up or down scrolls: dragged sideways, it selects a part of the time. */
  const between = ([x, y]) => [Math.min(x, start[0]), Math.max(x, start[0]), ...whole ? [0, whole] : [Math.min(y, start[1]), Math.max(y, start[1])]];
  picture.addEventListener("dragstart", (event) => event.preventDefault());
  picture.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.isPrimary) { [start, dragged, whole] = [at(event), false, event.pointerType === "touch" ? height : 0]; } });
  picture.addEventListener("pointermove", (event) => {
    if (!start) return;
    const [left, right, top, bottom] = between(at(event));
    if (!dragged && right - left < 5 && (whole || bottom - top < 5)) return;
    if (!dragged) picture.setPointerCapture(event.pointerId);
    dragged = true;
    setAttributes(brush, { x: left, y: top, width: right - left, height: bottom - top, visibility: "visible" });
  });
  picture.addEventListener("pointerup", (event) => {
    const found = start && dragged ? between(at(event)) : null;
    start = null;
    setAttributes(brush, { visibility: "hidden" });
    if (found) done(...found);
  });
  picture.addEventListener("pointercancel", () => { start = null; setAttributes(brush, { visibility: "hidden" }); });
  picture.addEventListener("click", (event) => { if (dragged) { event.preventDefault(); dragged = false; } }, true);
};

/** Bars over time, scaled to `most`; `hrefOf` returns the address of the frames of a part, `shown` a value as text, `scale` the highest one in the few pixels beside them, if they have it. */
export const bars = (data, values, { most, pixels, name, label, hrefOf, shown, scale = shown, hasScale = true, hasTimes = false }) => {
  const height = 38, wide = room(pixels) / data.parts, whole = height + (hasTimes ? TICKS : 2);
  const marks = values.map((value, part) => {
    if (!value) return null;
    const high = Math.max(2, (height - 2) * value / most), text = `${shown(value)} at ${formatTime(data.from + part * data.width, data.from)}`;
    return link(hrefOf(part), "column", text, shape("rect", { x: LEFT + part * wide, y: height - high, width: Math.max(1.5, wide - 0.5), height: high }, shape("title", {}, text)));
  });
  return shape("svg", { width: pixels, height: whole, viewBox: `0 0 ${pixels} ${whole}`, role: "group", "aria-label": label, class: `bars ${name}` },
    shape("line", { class: "grid", x1: LEFT, x2: pixels - RIGHT, y1: height, y2: height }), hasScale ? shape("text", { class: "tick", x: LEFT - 6, y: 12, "text-anchor": "end" }, scale(most)) : null, marks, hasTimes ? times(data, pixels, height + 14) : null);
};
