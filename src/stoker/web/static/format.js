// Numbers and times for people.

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s}s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m}m ${String(s % 60).padStart(2, "0")}s`;
  const hours = Math.floor(m / 60);
  if (hours < 48) return `${hours}h ${String(m % 60).padStart(2, "0")}m`;
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

// How long a job or an attempt has run until then, without the time for which it was suspended.
export function ran(job, at) {
  const stood = (job.suspended_ms || 0) + (job.suspended_at_ms ? Math.max(0, at - job.suspended_at_ms) : 0);
  return (job.ended_at_ms ?? at) - job.started_at_ms - stood;
}

export function isSuspended(job) {
  return job.state === "running" && Boolean(job.suspended_at_ms);
}

// What is suspended runs, and stands still.
export function stateShown(job) {
  return isSuspended(job) ? "suspended" : job.state;
}

// What is said of an attempt that was stopped for an urgent job; empty for all others.
export function gaveWay(attempt) {
  if (attempt.cause !== "gave way") return "";
  return attempt.detail ? `gave way for job ${attempt.detail}` : "gave way";
}

// For times that are compared: with a tenth where that is a difference.
export function fineDuration(ms) {
  return ms < 100_000 ? `${(ms / 1000).toFixed(1)}s` : duration(ms);
}

export function gib(mib) {
  if (mib === null || mib === undefined) return "";
  return mib >= 1024 ? `${trim(mib / 1024)} GiB` : `${Math.round(mib)} MiB`;
}

function trim(number) {
  return number >= 100 ? number.toFixed(0) : number.toFixed(1).replace(/\.0$/, "");
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  let value = count;
  while (value >= 1024 && place < units.length - 1) {
    value /= 1024;
    place += 1;
  }
  return `${place ? trim(value) : value} ${units[place]}`;
}

const clock = new Intl.DateTimeFormat(undefined,
  { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

export function moment(ms, nowMs) {
  if (ms === null || ms === undefined) return "";
  const at = new Date(ms);
  const same = at.toDateString() === new Date(nowMs).toDateString();
  return same ? clock.format(at) : `${day.format(at)} ${short.format(at)}`;
}

export function hourMinute(ms) {
  return short.format(new Date(ms));
}

export function clockText(ms) {
  return clock.format(new Date(ms));
}

export function dayText(ms) {
  return day.format(new Date(ms));
}

export function fromNow(ms, nowMs) {
  if (ms === null || ms === undefined) return "";
  const left = ms - nowMs;
  return left <= 1500 ? "soon" : `in ${duration(left)}`;
}

export function count(number, word, words = `${word}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? word : words}`;
}

export function need(need) {
  const parts = [];
  if (need.share) parts.push(`${need.share} GPU`);
  else if (need.gpus) parts.push(count(need.gpus, "GPU"));
  if (need.mem_mib) parts.push(gib(need.mem_mib));
  else if (need.mem === "auto") parts.push("as seen");
  if (need.cpus) parts.push(count(need.cpus, "CPU"));
  return parts.join(", ") || "nothing";
}

export function exitText(job) {
  if (job.signal) return `signal ${job.signal}`;
  return job.exit_code === null || job.exit_code === undefined ? "" : `exit ${job.exit_code}`;
}

// The value of a parameter.
export function valueText(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

export const FINAL = new Set(["succeeded", "stopped", "failed", "cancelled", "skipped", "lost"]);
export const STATES = ["running", "stopping", "submitted", "waiting", "held", "failed", "lost", "succeeded",
  "stopped", "cancelled", "skipped"];
