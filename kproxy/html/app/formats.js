/* Numbers, durations, sizes and times as text. */
import { loadSetting, saveSetting } from "./elements.js";

export const formatCount = (value) => value ? value.toLocaleString("en") : "";
export const formatDuration = (us) => {
  if (us === null || us === undefined) return "";
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${(us / 1e3).toFixed(us < 1e4 ? 2 : us < 1e5 ? 1 : 0)} ms`;
  if (us < 120e6) return `${(us / 1e6).toFixed(us < 1e7 ? 2 : 1)} s`;
  const minutes = Math.floor(us / 60e6);
  return minutes < 120 ? `${minutes} min ${Math.floor(us / 1e6) % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
};
export const formatSize = (bytes) => {
  if (bytes === null || bytes === undefined) return "";
  if (bytes < 1000) return `${bytes} B`;
  let value = bytes / 1000, unit = 0;
  while (value >= 999.95 && unit < 2) { value /= 1000; unit += 1; }
  return `${value.toFixed(1)} ${["KB", "MB", "GB"][unit]}`;
};

/** How times are shown; `delta` is the time since the row above. */
export const TIMES = { utc: "UTC", local: "local time", relative: "since the first row", delta: "since the row above" };
let mode = Object.hasOwn(TIMES, loadSetting("time", "utc")) ? loadSetting("time", "utc") : "utc", firstTime = 0, hasDates = false;
export const timeMode = () => mode;
export const setTimeMode = (name) => { mode = name; saveSetting("time", name); };
/** Sets the first and last time, in us: relative times count from the first, and times of several days have a date. */
export const setTimeRange = (from, to) => {
  firstTime = from;
  hasDates = Math.floor(from / 864e8) !== Math.floor(to / 864e8);
};
const pad = (number, digits = 2) => String(number).padStart(digits, "0");
const formatClock = (us, isLocal, isFull) => {
  const date = new Date(Math.floor(us / 1000)), get = (name) => isLocal ? date[`get${name}`]() : date[`getUTC${name}`]();
  const datePart = hasDates || isFull ? `${isFull ? `${get("FullYear")}-` : ""}${pad(get("Month") + 1)}-${pad(get("Date"))} ` : "";
  const fraction = isFull ? pad(((us % 1e6) + 1e6) % 1e6, 6) : pad(get("Milliseconds"), 3);
  return `${datePart}${pad(get("Hours"))}:${pad(get("Minutes"))}:${pad(get("Seconds"))}.${fraction}`;
};
const formatSeconds = (us) => `${us < 0 ? "-" : ""}${(Math.abs(us) / 1e6).toFixed(6)}`;
/** Formats a time in a list; `previous` is the time of the row above, if it is known. */
export const formatTime = (us, previous) => {
  if (us === null || us === undefined) return "";
  if (mode === "relative") return formatSeconds(us - firstTime);
  if (mode === "delta") return previous === undefined ? "" : formatSeconds(us - previous);
  return formatClock(us, mode === "local", false);
};
/** Formats a time with its date and time zone. */
export const formatFullTime = (us) => mode === "local" ? `${formatClock(us, true, true)} ${timeZone()}` : `${formatClock(us, false, true)} UTC`;
export const timeZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "local";
export const timeTitle = () => ({ utc: "time UTC", local: `time ${timeZone()}`, relative: "s since first", delta: "s since above" })[mode];
/** The width of a time in a list, in pixels. */
export const timeWidth = () => mode === "relative" || mode === "delta" ? 112 : hasDates ? 138 : mode === "local" ? 120 : 92;
