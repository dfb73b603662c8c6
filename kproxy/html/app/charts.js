/* Charts: a heat map with percentiles, and bars over time. Each mark is a link; a part of a heat map is selected by dragging. */
import { setAttributes, shape } from "./elements.js";
import { formatDuration, formatTime } from "./formats.js";

const LEFT = 84, RIGHT = 46, TICKS = 20;
const NARROW = 620, NARROW_LEFT = 76, NARROW_RIGHT = 28;
const leftOf = (pixels) => pixels < NARROW ? NARROW_LEFT : LEFT, rightOf = (pixels) => pixels < NARROW ? NARROW_RIGHT : RIGHT;
const plotWidth = (pixels) => Math.max(120, pixels - leftOf(pixels) - rightOf(pixels));
const link = (href, className, label, ...children) => shape("a", { href, class: className, tabindex: -1, "aria-label": label }, ...children);

/** The time axis below a chart; relative times count from its start. */
const timeAxis = ({ from, width, parts }, pixels, y) => {
  const count = Math.max(1, Math.min(6, Math.floor(plotWidth(pixels) / 130)));
  return Array.from({ length: count + 1 }, (_, index) => {
    const x = leftOf(pixels) + index / count * plotWidth(pixels), us = Math.round(from + index / count * width * parts);
    return shape("text", { class: "tick", x, y, "text-anchor": index === 0 ? "start" : index === count ? "end" : "middle" }, formatTime(us, from));
  });
};

/**
 * Draws the number of responses by time and latency, with median and p99 as lines.
 * @param api the API whose responses they are, empty for all
 * @param hrefOf returns the address of the frames in `(fromPart, toPart, fromLevel, toLevel)`, ends not included
 * @param navigate is called with the address of the part that was selected by dragging
 */
export const heatMap = (data, pixels, api, hrefOf, navigate) => {
  const { heat, bounds, percentiles, parts } = data, levels = heat.map(([, level]) => level), low = Math.max(0, Math.min(...levels) - 1), high = Math.max(...levels) + 2;
  const maxCount = Math.max(...heat.map(([, , count]) => count)), cellHeight = pixels < 620 ? 10 : 13, height = (high - low) * cellHeight, columnWidth = plotWidth(pixels) / parts;
  const x = (part) => leftOf(pixels) + part * columnWidth, y = (level) => height - (level - low) * cellHeight, latencyY = (us) => y(2 * Math.log2(Math.max(us, 1)));
  const span = (level) => `${formatDuration(bounds[level])} to ${formatDuration(bounds[level + 1])}`;
  const marks = heat.map(([part, level, count]) => {
    const label = `${count.toLocaleString("en")} × ${api ? `${api}, ` : ""}${span(level)}, answered at ${formatTime(data.from + part * data.width, data.from)}`;
    return link(hrefOf(part, part + 1, level, level + 1), "cell", label,
      shape("rect", { x: x(part), y: y(level + 1), width: Math.max(1.5, columnWidth - 0.5), height: cellHeight - 1, "fill-opacity": (0.22 + 0.78 * Math.log(count + 1) / Math.log(maxCount + 1)).toFixed(3) }, shape("title", {}, label)));
  });
  /* Without vertical lines, because medians jump between two kinds of latencies. */
  const percentileLine = (index) => percentiles.map((values, part) => values ? `M${x(part).toFixed(1)} ${latencyY(values[index]).toFixed(1)}h${columnWidth.toFixed(1)}` : "").join("");
  const last = percentiles.findLast((values) => values), labelYs = [latencyY(last[0]) + 4, latencyY(last[1]) + 4];
  if (labelYs[0] - labelYs[1] < 12) labelYs[1] = labelYs[0] - 12;
  const axis = [];
  for (let us = 1; us < 1e12; us *= 10) {
    const tickY = latencyY(us);
    if (tickY < 4 || tickY > height) continue;
    axis.push(shape("line", { class: "grid", x1: leftOf(pixels), x2: pixels - rightOf(pixels), y1: tickY, y2: tickY }), shape("text", { class: "tick", x: leftOf(pixels) - 6, y: tickY + 4, "text-anchor": "end" }, us < 1000 ? `${us} µs` : us < 1e6 ? `${us / 1e3} ms` : `${us / 1e6} s`));
  }
  const brush = shape("rect", { class: "brush", visibility: "hidden" });
  const picture = shape("svg", { width: pixels, height: height + TICKS, viewBox: `0 0 ${pixels} ${height + TICKS}`, role: "group", "aria-label": "Latency over time", class: "heat" },
    axis, marks, shape("path", { class: "p99", d: percentileLine(1) }), shape("path", { class: "p50", d: percentileLine(0) }),
    shape("text", { class: "tick", x: pixels - rightOf(pixels) + 4, y: labelYs[0] }, "p50"), shape("text", { class: "tick", x: pixels - rightOf(pixels) + 4, y: labelYs[1] }, "p99"), brush, timeAxis(data, pixels, height + 14));
  selectByDragging(picture, brush, height, (left, right, top, bottom) => {
    const part = (pixel) => (pixel - leftOf(pixels)) / columnWidth, level = (pixel) => low + (height - pixel) / cellHeight;
    const [fromPart, toPart] = [Math.max(0, Math.floor(part(left))), Math.min(parts, Math.ceil(part(right)))], [fromLevel, toLevel] = [Math.max(low, Math.floor(level(bottom))), Math.min(high, Math.ceil(level(top)))];
    if (toPart > fromPart && toLevel > fromLevel) navigate(top === 0 && bottom === height ? hrefOf(fromPart, toPart) : hrefOf(fromPart, toPart, fromLevel, toLevel));
  });
  return picture;
};

/** Calls `onSelect(left, right, top, bottom)` when a part of a picture was selected by dragging; `height` excludes the time axis. */
const selectByDragging = (picture, brush, height, onSelect) => {
  let start = null, dragged = false, fullHeight = 0;
  const pointOf = (event) => { const box = picture.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  /* Only Shift selects latencies, too: most people want a time. A finger that moves up or down scrolls. */
  const rectangle = ([x, y]) => [Math.min(x, start[0]), Math.max(x, start[0]), ...fullHeight ? [0, fullHeight] : [Math.min(y, start[1]), Math.max(y, start[1])]];
  picture.addEventListener("dragstart", (event) => event.preventDefault());
  picture.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.isPrimary) { [start, dragged, fullHeight] = [pointOf(event), false, event.pointerType === "touch" || !event.shiftKey ? height : 0]; } });
  picture.addEventListener("pointermove", (event) => {
    if (!start) return;
    const [left, right, top, bottom] = rectangle(pointOf(event));
    if (!dragged && right - left < 5 && (fullHeight || bottom - top < 5)) return;
    if (!dragged) picture.setPointerCapture(event.pointerId);
    dragged = true;
    setAttributes(brush, { x: left, y: top, width: right - left, height: bottom - top, visibility: "visible" });
  });
  picture.addEventListener("pointerup", (event) => {
    const selection = start && dragged ? rectangle(pointOf(event)) : null;
    start = null;
    setAttributes(brush, { visibility: "hidden" });
    if (selection) onSelect(...selection);
  });
  picture.addEventListener("pointercancel", () => { start = null; setAttributes(brush, { visibility: "hidden" }); });
  picture.addEventListener("click", (event) => { if (dragged) { event.preventDefault(); dragged = false; } }, true);
};

/** Draws bars over time, scaled to `max`. `hrefOf` returns the address of the frames of a part; `format` formats a value, `formatMax` the highest one beside the bars. */
export const bars = (data, values, { max, pixels, className, label, hrefOf, format, formatMax = format, hasScale = true, hasTimes = false }) => {
  const height = 38, columnWidth = plotWidth(pixels) / data.parts, totalHeight = height + (hasTimes ? TICKS : 2);
  const marks = values.map((value, part) => {
    if (!value) return null;
    const barHeight = Math.max(2, (height - 2) * value / max), text = `${format(value)} at ${formatTime(data.from + part * data.width, data.from)}`;
    return link(hrefOf(part), "column", text, shape("rect", { x: leftOf(pixels) + part * columnWidth, y: height - barHeight, width: Math.max(1.5, columnWidth - 0.5), height: barHeight }, shape("title", {}, text)));
  });
  return shape("svg", { width: pixels, height: totalHeight, viewBox: `0 0 ${pixels} ${totalHeight}`, role: "group", "aria-label": label, class: `bars ${className}` },
    shape("line", { class: "grid", x1: leftOf(pixels), x2: pixels - rightOf(pixels), y1: height, y2: height }), hasScale ? shape("text", { class: "tick", x: leftOf(pixels) - 6, y: 12, "text-anchor": "end" }, formatMax(max)) : null, marks, hasTimes ? timeAxis(data, pixels, height + 14) : null);
};
