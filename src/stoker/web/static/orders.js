// Orders about jobs, asked for again where they end something.

import { post } from "./api.js";
import { ask } from "./dom.js";
import { count, FINAL } from "./format.js";

const ACTIVE = new Set(["running", "stopping"]);
const QUEUED = new Set(["waiting", "held"]);

export function possible(job) {
  return {
    cancel: !FINAL.has(job.state) && !job.adopted,
    let_go: !FINAL.has(job.state) && Boolean(job.adopted),
    retry: FINAL.has(job.state),
    requeue: job.state === "running" && !job.adopted && !job.attached,
    hold: job.state === "waiting",
    release: job.state === "held",
    edit: QUEUED.has(job.state),
    remove: FINAL.has(job.state),
  };
}

function named(jobs) {
  return jobs.length === 1 ? `job ${jobs[0].id}` : count(jobs.length, "job");
}

// True if it was done; false if the user thought better of it.
export async function give(order, jobs) {
  const fitting = jobs.filter((job) => possible(job)[order]);
  if (!fitting.length) return false;
  const running = fitting.filter((job) => ACTIVE.has(job.state));
  if (order === "cancel" && running.length) {
    const what = jobs.length === 1 && jobs[0].name ? jobs[0].name : "";
    const sure = await ask(`Stop ${named(running)}?`,
      { yes: "Stop", danger: true, details: what || "What runs gets SIGTERM, and SIGKILL after its grace time." });
    if (!sure) return false;
  }
  if (order === "remove") {
    const sure = await ask(`Forget ${named(fitting)}?`,
      { yes: "Forget", danger: true, details: "The logs are deleted too." });
    if (!sure) return false;
  }
  const ids = fitting.map((job) => job.id);
  // A job that was adopted ends, and its process goes on.
  if (order === "let_go") await post("/api/jobs/cancel", { ids, let_go: true });
  else await post(`/api/jobs/${order}`, { ids });
  return true;
}

export async function setPriority(job, priority) {
  await post("/api/jobs/edit", { ids: [job.id], changes: { priority } });
}
