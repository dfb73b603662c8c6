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

/** The ways to show a time; the first three are of the moment, the last is the time since the row above. */
export const TIMES = { utc: "UTC", local: "local time", relative: "since the first row", delta: "since the row above" };
let mode = Object.hasOwn(TIMES, loadSetting("time", "utc")) ? loadSetting("time", "utc") : "utc", first = 0, days = false;
export const timeMode = () => mode;
export const setTimeMode = (name) => { mode = name; saveSetting("time", name); };
/** The first and the last time, in us: what relative times count from, and whether times need a date. */
export const setTimeRange = (from, to) => {
  first = from;
  days = Math.floor(from / 864e8) !== Math.floor(to / 864e8);
};
const pad = (number, digits = 2) => String(number).padStart(digits, "0");
const clock = (us, local, fine) => {
  const at = new Date(Math.floor(us / 1000)), get = (name) => local ? at[`get${name}`]() : at[`getUTC${name}`]();
  const date = days || fine ? `${fine ? `${get("FullYear")}-` : ""}${pad(get("Month") + 1)}-${pad(get("Date"))} ` : "";
  const part = fine ? pad(((us % 1e6) + 1e6) % 1e6, 6) : pad(get("Milliseconds"), 3);
  return `${date}${pad(get("Hours"))}:${pad(get("Minutes"))}:${pad(get("Seconds"))}.${part}`;
};
const seconds = (us) => `${us < 0 ? "-" : ""}${(Math.abs(us) / 1e6).toFixed(6)}`;
/** A time in a list; `before` is the time of the row above, if that is known. */
export const formatTime = (us, before) => {
  if (us === null || us === undefined) return "";
  if (mode === "relative") return seconds(us - first);
  if (mode === "delta") return before === undefined ? "" : seconds(us - before);
  return clock(us, mode === "local", false);
};
/** A time in full, with its zone. */
export const formatFullTime = (us) => mode === "local" ? `${clock(us, true, true)} ${timeZone()}` : `${clock(us, false, true)} UTC`;
export const timeZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "local";
export const timeTitle = () => ({ utc: "time UTC", local: `time ${timeZone()}`, relative: "s since first", delta: "s since above" })[mode];
/** The pixels that a time in a list needs. */
export const timeWidth = () => mode === "relative" || mode === "delta" ? 112 : days ? 138 : mode === "local" ? 120 : 92;
