// Orders about jobs: judged by what the jobs are now, and asked about first where they end work.

import { ApiError, get, post } from "./api.js";
import { ask } from "./dom.js";
import { count, FINAL, isSuspended } from "./format.js";

const ACTIVE = new Set(["running", "stopping"]);
const QUEUED = new Set(["waiting", "held"]);
const NOT_STARTED = new Set([...QUEUED, "submitted"]);
const ASKED_AT_ONCE = 90; // A question has at most 100 fields.
const TERM = "What runs gets SIGTERM, and SIGKILL after its grace time.";
const LOGS_TOO = "The logs are deleted too.";
// The states in which jobs must be for an order about all that match. What succeeded is not run again by the way.
const FITTING = {
  cancel: new Set([...ACTIVE, ...NOT_STARTED]),
  retry: new Set([...FINAL].filter((state) => state !== "succeeded")),
  hold: new Set(["waiting"]),
  release: new Set(["held"]),
  edit: QUEUED,
  remove: FINAL,
};

export function possible(job) {
  return {
    cancel: !FINAL.has(job.state) && !job.adopted,
    let_go: !FINAL.has(job.state) && Boolean(job.adopted),
    retry: FINAL.has(job.state),
    requeue: job.state === "running" && !job.adopted && !job.attached,
    suspend: canStandStill(job) && !isSuspended(job),
    resume: isSuspended(job),
    yield: job.state === "running" && Boolean(job.preemptible),
    hold: job.state === "waiting",
    release: job.state === "held",
    edit: QUEUED.has(job.state),
    remove: FINAL.has(job.state),
  };
}

function canStandStill(job) {
  return job.state === "running" && !job.adopted && !job.attached && job.executor === "local";
}

// The jobs as they are now, by id; one that is gone is left out.
export async function latest(ids) {
  const found = new Map();
  for (let from = 0; from < ids.length; from += ASKED_AT_ONCE) {
    const some = ids.slice(from, from + ASKED_AT_ONCE);
    const { jobs } = await get("/api/jobs", { ids: some, limit: some.length });
    for (const job of jobs) found.set(job.id, job);
  }
  return found;
}

// ---- what is asked

function named(jobs) {
  if (jobs.length === 1) return `job ${jobs[0].id}`;
  const running = jobs.filter((job) => ACTIVE.has(job.state)).length;
  const some = running === 1 ? ", one of which runs" : `, ${running} of which run`;
  return count(jobs.length, "job") + (running && running < jobs.length ? some : "");
}

// What ends work, in words: what is done, and what it means.
function endingOf(order, jobs) {
  switch (order) {
    case "cancel":
      if (!jobs.some((job) => ACTIVE.has(job.state))) {
        return jobs.length === 1 ? { verb: "Cancel", yes: "Cancel it", means: "It has not started." }
          : { verb: "Cancel", yes: "Cancel them", means: "None of them has started." };
      }
      return { verb: "Stop", means: TERM };
    case "requeue": return { verb: "Put back", means: "What runs is stopped now, and starts again later." };
    case "yield":
      return { verb: "Let", rest: " give way", yes: "Give way", means: "It is asked to stop, and starts again later." };
    case "let_go": return { verb: "Let go of", yes: "Let go", means: "The job ends. Its process goes on by itself." };
    case "remove": return { verb: "Forget", means: LOGS_TOO };
    default: return null;
  }
}

async function isSure(order, jobs) {
  const ending = endingOf(order, jobs);
  if (!ending) return true;
  const name = jobs.length === 1 && jobs[0].name ? `${jobs[0].name}. ` : "";
  const { verb, rest = "", yes = verb, means } = ending;
  return ask(`${verb} ${named(jobs)}${rest}?`, { yes, danger: true, details: name + means });
}

// ---- what is done

// A job that has started, or ended, since its user was asked is left as it is.
async function cancel(jobs) {
  let done = 0;
  for (const states of [ACTIVE, NOT_STARTED]) {
    const ids = jobs.filter((job) => states.has(job.state)).map((job) => job.id);
    if (!ids.length) continue;
    try {
      done += (await post("/api/jobs/cancel", { ids, states: [...states] })).ids.length;
    } catch (error) {
      if (error.code !== "failed") throw error; // None of them is in such a state any more.
    }
  }
  const left = jobs.length - done;
  if (left) {
    const what = left === 1 ? "1 job has started or ended, and is" : `${left} jobs have started or ended, and are`;
    throw new ApiError(409, { message: `meanwhile ${what} left alone`, hint: "Look, and cancel again" });
  }
}

// True if it was done; false if the user thought better of it. The jobs are judged as they are now, not as they
// were when they were chosen.
export async function give(order, chosen) {
  const now = await latest(chosen.map((job) => job.id));
  const jobs = chosen.filter((job) => now.has(job.id)).map((job) => {
    const { state, suspended_at_ms } = now.get(job.id);
    return { ...job, state, suspended_at_ms };
  });
  const fitting = jobs.filter((job) => possible(job)[order]);
  if (!fitting.length || !(await isSure(order, fitting))) return false;
  const ids = fitting.map((job) => job.id);
  if (order === "cancel") await cancel(fitting);
  // A job that was adopted ends, and its process goes on.
  else if (order === "let_go") await post("/api/jobs/cancel", { ids, let_go: true });
  else await post(`/api/jobs/${order}`, { ids });
  return true;
}

// ---- all that match

// `wanted`: what a list is asked for, `text` and `states`; or a `group`.
function selection(wanted, states) {
  const fitting = [...states].filter((state) => !wanted.states?.length || wanted.states.includes(state));
  const { text = "", group = null } = wanted;
  return { text, group, all: !text && group === null, states: fitting };
}

async function many(wanted, states) {
  const { text, group, states: fitting } = selection(wanted, states);
  return fitting.length ? (await get("/api/jobs", { text, group, states: fitting, limit: 0 })).total : 0;
}

async function isSureOfAll(order, number, running) {
  const jobs = count(number, "job");
  if (order === "retry") {
    return ask(`Retry ${jobs}?`, { yes: "Retry them", details: "Those that succeeded are left as they are." });
  }
  if (order === "remove") return ask(`Forget ${jobs}?`, { yes: "Forget them", danger: true, details: LOGS_TOO });
  if (order !== "cancel") return true;
  const some = running && running < number ? `, ${running.toLocaleString("en")} of which run` : "";
  return ask(`${running ? "Stop" : "Cancel"} ${jobs}${some}?`, { danger: true,
    yes: running ? "Stop them" : "Cancel them", details: running ? TERM : "None of them has started." });
}

// An order about all jobs that match, however many: the daemon looks for them. What `more` says is sent along.
export async function giveMatching(order, wanted, more = {}) {
  const states = FITTING[order];
  const number = await many(wanted, states);
  if (!number) {
    throw new ApiError(409, { message: "none of these jobs is in a state for that",
      hint: `It must be ${[...states].join(" or ")}` });
  }
  // A job that has started since must not be stopped by an order for waiting jobs.
  const running = order === "cancel" ? await many(wanted, ACTIVE) : 0;
  if (!(await isSureOfAll(order, number, running))) return false;
  const meant = order === "cancel" && !running ? NOT_STARTED : states;
  told(await post(`/api/jobs/${order}`, { ...selection(wanted, meant), ...more }));
  return true;
}

// Of many jobs, those that could not be are left out; the user should know of it.
function told({ left_out: leftOut = {} }) {
  const [first, ...others] = Object.entries(leftOut);
  if (!first) return;
  const [why, ids] = first;
  const more = others.length ? `, and ${count(others.reduce((sum, [, some]) => sum + some.length, 0), "other")}` : "";
  throw new ApiError(409, { message: `${count(ids.length, "job")} could not be changed: ${why}${more}` });
}

export async function setPriority(jobs, priority) {
  const ids = jobs.map((job) => job.id);
  told(await post("/api/jobs/edit", { ids, states: [...QUEUED], changes: { priority } }));
}
