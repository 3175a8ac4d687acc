// The logs of several jobs side by side.

import { get } from "./api.js";
import { errorBox, h } from "./dom.js";
import { LogPane } from "./log.js";

export const MOST_LOGS = 6;
const ACTIVE = new Set(["running", "stopping"]);

export function logsAddress(ids) {
  return `#/logs/${[...ids].slice(0, MOST_LOGS).join(",")}`;
}

export function sideLogsView(words) {
  const ids = [...new Set(words.split(",").map(Number).filter(Number.isSafeInteger))].slice(0, MOST_LOGS);
  const trouble = errorBox();
  const panes = new Map();
  const box = h("div", { class: "side" });
  const element = h("div", { class: "stack" },
    h("div", { class: "bar" }, h("a", { href: "#/", class: "back", "aria-label": "To the list" }, "←"),
      h("h1", {}, "Logs side by side")),
    trouble.element, box);
  let closed = false;

  async function look(some = ids) {
    for (const id of some) {
      try {
        const { job } = await get(`/api/jobs/${id}`);
        if (closed) return;
        show(job);
      } catch (error) {
        if (closed) return;
        if (error.status) trouble.show(error);
      }
    }
  }

  function show(job) {
    const attempt = job.attempts.at(-1)?.attempt;
    const running = ACTIVE.has(job.state);
    let pane = panes.get(job.id);
    if (!pane) {
      const log = new LogPane(job.id, { title: `${job.id} ${job.name || job.command}` });
      const state = h("a", { class: "state", href: `#/job/${job.id}` });
      pane = { log, state, attempt: null, element: h("div", { class: "sidelog" }, state, log.element) };
      panes.set(job.id, pane);
      box.append(...ids.filter((id) => panes.has(id)).map((id) => panes.get(id).element));
    }
    pane.state.dataset.state = job.state;
    pane.state.textContent = `job ${job.id}: ${job.state}${job.reason ? `, ${job.reason}` : ""}`;
    if (attempt && attempt !== pane.attempt) {
      pane.attempt = attempt;
      pane.log.show(attempt, { running, hasErr: Boolean(job.err_log) });
    } else pane.log.setRunning(running);
  }

  return {
    element,
    title: "Logs",
    open: () => look(),
    close() {
      closed = true;
      for (const { log } of panes.values()) log.close();
    },
    hear(change) {
      const some = ids.filter((id) => change.many || change.changed.includes(id));
      if (some.length) look(some);
    },
  };
}
