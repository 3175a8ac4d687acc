// Orders about jobs: judged by what the jobs are now, and asked about first where they end work.

import { ApiError, get, post } from "./api.js";
import { ask } from "./dom.js";
import { count, FINAL, isSuspended } from "./format.js";

const ACTIVE = new Set(["running", "stopping"]);
const QUEUED = new Set(["waiting", "held"]);
const NOT_STARTED = new Set([...QUEUED, "submitted"]);
const ASKED_AT_ONCE = 200;

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
      return { verb: "Stop", means: "What runs gets SIGTERM, and SIGKILL after its grace time." };
    case "requeue": return { verb: "Put back", means: "What runs is stopped now, and starts again later." };
    case "yield":
      return { verb: "Let", rest: " give way", yes: "Give way", means: "It is asked to stop, and starts again later." };
    case "let_go": return { verb: "Let go of", yes: "Let go", means: "The job ends. Its process goes on by itself." };
    case "remove": return { verb: "Forget", means: "The logs are deleted too." };
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

export async function setPriority(job, priority) {
  await post("/api/jobs/edit", { ids: [job.id], changes: { priority } });
}
