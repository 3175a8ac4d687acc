// What one wants to know of a job at once: how long it has run, how long it goes on, how it ended. Without DOM.

import { count, duration, exitText, FINAL, isSuspended, ran } from "./format.js";

const ACTIVE = new Set(["running", "stopping"]);

// Pairs of a name and its words.
export function vitals(job, why, at) {
  const found = [];
  const latest = job.attempts.at(-1);
  if (FINAL.has(job.state)) {
    if (job.started_at_ms) found.push(["Ran", duration(ran(job, at))]);
    if (job.exit_code !== null && job.exit_code !== undefined) found.push(["Exit code", String(job.exit_code)]);
    else if (job.signal) found.push(["Ended by", exitText(job)]);
  } else if (ACTIVE.has(job.state) && job.started_at_ms) {
    found.push(["Elapsed", duration(ran(job, at))]);
    if (!isSuspended(job)) found.push(["Time left", leftText(job, why, ran(job, at))]);
  } else {
    found.push(["Waits since", duration(at - (job.queued_at_ms ?? job.submitted_at_ms))]);
    if (latest?.exit_code) found.push(["Exit code of the last attempt", String(latest.exit_code)]);
  }
  if (latest && (job.attempts.length > 1 || job.retries)) {
    const most = job.retries ? ` (${count(job.retries, "retry", "retries")} after a failure)` : "";
    found.push(["Attempt", `${job.attempts.length}${most}`]);
  }
  return found;
}

function leftText(job, why, elapsed) {
  const most = job.time_limit_ms ? Math.max(0, job.time_limit_ms - elapsed) : null;
  const known = why.run_ms ?? null;
  const learned = why.learned_from ? ` (from ${count(why.learned_from, "earlier run")})` : "";
  if (known !== null && known > elapsed && (most === null || known - elapsed < most)) {
    return `about ${duration(known - elapsed)}${learned}`;
  }
  const longer = known !== null && why.learned_from && known <= elapsed ? `; it runs longer than usual${learned}` : "";
  if (most !== null) return `at most ${duration(most)}${longer}`;
  return longer ? longer.slice(2) : "not known";
}
