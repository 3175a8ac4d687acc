// One job: what it is, its history, and what it says.

import { holdInView, keepInAddress } from "./address.js";
import { setTitle } from "./alerts.js";
import { get, post } from "./api.js";
import { JobCurves } from "./curves.js";
import { clear, errorBox, h, keyed, setData, setHidden, setNote, setText } from "./dom.js";
import { now, serverNow } from "./feed.js";
import {
  count, duration, exitText, FINAL, fromNow, gib, isSuspended, moment, ran, stateShown, valueText,
} from "./format.js";
import { editDialog } from "./edit.js";
import { LogPane, placeOf } from "./log.js";
import { give, possible, setPriority } from "./orders.js";
import { JobPlot } from "./plot.js";
import { Related } from "./related.js";
import { vitals } from "./vitals.js";

export function jobView(id, query) {
  let linked = placeOf(query.get("log")); // the line that a link leads to, until it is shown
  const title = h("h1", { class: "cut" }, h("span", { class: "dim num" }, `${id} `), h("bdi", {}));
  const state = h("span", { class: "state big" });
  const why = h("span", { class: "why" });
  const trouble = errorBox();
  const buttons = {};
  for (const [name, words] of [["cancel", "Cancel"], ["retry", "Retry"], ["requeue", "Put back"],
    ["suspend", "Suspend"], ["resume", "Resume"], ["yield", "Give way"], ["hold", "Hold"],
    ["release", "Release"], ["let_go", "Let go"]]) {
    buttons[name] = h("button", { type: "button", class: name === "cancel" ? "danger" : "",
      onclick: () => order(name) }, words);
  }
  buttons.edit = h("button", { type: "button", onclick: () => edit() }, "Edit");
  buttons.remove = h("button", { type: "button", class: "danger", onclick: () => order("remove") }, "Forget");
  // What can be ordered is known once the job is.
  Object.values(buttons).forEach((button) => setHidden(button, true));
  const clone = h("a", { class: "button", href: `#/submit/job?clone=${id}` }, "Clone");
  const sooner = h("button", { type: "button", class: "small", title: "Sooner", onclick: () => priority(-1) }, "+");
  const later = h("button", { type: "button", class: "small", title: "Later", onclick: () => priority(1) }, "−");

  const command = h("pre", { class: "command" });
  const facts = h("dl", { class: "facts" });
  const history = h("ol", { class: "history" });
  const attempts = h("div", { class: "scroll-x" });
  const numbers = h("dl", { class: "vitals bar" });
  const complaint = h("button", { type: "button", class: "complaint mono", title: "Find it in the log",
    onclick: () => log.find(complaint.textContent) });
  const plot = new JobPlot();
  const plotCard = h("section", { class: "card pad" }, h("h2", {}, "GPU memory and use"), plot.element);
  const related = new Related(id);
  const curves = new JobCurves(id);
  const log = new LogPane(id, { onplace: (words) => keepInAddress({ log: words }) });
  const parts = h("div", { class: "stack", hidden: true },
    numbers, complaint,
    h("div", { class: "two" },
      h("section", { class: "card pad" }, h("h2", {}, "Command"), command, facts),
      h("div", { class: "stack" },
        h("section", { class: "card pad" }, h("h2", {}, "History"), history, attempts),
        plotCard)),
    related.element,
    curves.element,
    log.element);
  const missing = h("p", { class: "empty" }, "…");
  const element = h("div", { class: "stack job" },
    h("div", { class: "bar jobhead" },
      h("a", { href: "#/", class: "back", "aria-label": "To the list" }, "←"), title, state, why,
      h("span", { class: "grow" }),
      h("div", { class: "buttons write" }, ...Object.values(buttons), clone)),
    trouble.element, missing, parts);

  let job = null;
  let reason = {};
  let shownAttempt = null;
  let chosenAttempt = linked?.attempt ?? null;
  let closed = false;

  async function refresh() {
    let answer;
    try {
      answer = await get(`/api/jobs/${id}`);
    } catch (error) {
      if (closed || error.status === 0) return;
      if (error.status === 404) setNote(missing, `There is no job ${id}.`, "#/", "All jobs");
      else setText(missing, `${error.message}. ${error.hint}`);
      setHidden(missing, false);
      setHidden(parts, true);
      Object.values(buttons).forEach((button) => setHidden(button, true));
      return;
    }
    if (closed) return;
    ({ job, why: reason } = answer);
    setText(complaint, answer.complaint);
    setHidden(complaint, !answer.complaint);
    draw();
  }

  function draw() {
    setHidden(missing, true);
    setHidden(parts, false);
    setTitle(`${id} ${job.name || ""}`.trim());
    setText(title.children[1], job.name || job.command);
    setData(state, "state", stateShown(job));
    setText(state, stateShown(job));
    setText(why, whyText());
    setHidden(plotCard, !job.attempts.length || Boolean(job.adopted));
    const can = possible(job);
    for (const [name, button] of Object.entries(buttons)) setHidden(button, !can[name]);
    setText(command, job.command);
    drawVitals();
    drawFacts();
    drawHistory();
    drawAttempts();
    drawLog();
    curves.show(job);
  }

  function whyText() {
    if (FINAL.has(job.state)) return job.reason || (job.state === "succeeded" ? "" : exitText(job));
    if (isSuspended(job)) return job.reason;
    if (!["waiting", "held", "submitted"].includes(job.state)) return "";
    const soon = reason.starts_at_ms ? `; expected to start ${fromNow(reason.starts_at_ms, serverNow())}` : "";
    const ahead = reason.jobs_ahead ? `; ${count(reason.jobs_ahead, "job")} before it` : "";
    return reason.text + ahead + soon;
  }

  function drawVitals() {
    keyed(numbers, vitals(job, reason, serverNow()), ([name]) => name,
      ([name]) => h("div", {}, h("dt", {}, name), h("dd", { class: "num" })),
      (pair, [, words]) => setText(pair.lastChild, words));
  }

  function clusterText(known) {
    if (!known) return "Slurm";
    return `Slurm, job ${known.id}${known.node ? ` on ${known.node}` : ""}`;
  }

  function commitText(dirty) {
    if (dirty === false) return "";
    return dirty ? " and changes" : ", unknown whether changed";
  }

  function fact(name, ...value) {
    return [name, value];
  }

  function drawFacts() {
    const at = serverNow();
    const editable = possible(job).edit;
    const found = [
      fact("Directory", h("code", {}, job.cwd)),
      job.git ? fact("Commit", h("code", {}, job.git.commit.slice(0, 12)), commitText(job.git.dirty)) : null,
      fact("Needs", needText(job.need)),
      job.reserved_mib ? fact("Reserved", gib(job.reserved_mib)) : null,
      job.peak_mib ? fact("Peak memory", gib(job.peak_mib)) : null,
      fact("Priority", h("span", { class: "num" }, String(job.priority)),
        editable ? h("span", { class: "write steps" }, " ", later, sooner) : ""),
      job.group ? fact("Group", h("bdi", {}, job.group),
        job.point ? h("a", { href: `#/sweep/${encodeURIComponent(job.group)}` }, " sweep") : "") : null,
      fact("User", job.user),
      job.executor === "local" ? null : fact("Cluster", clusterText(job.cluster)),
      Object.keys(job.params || {}).length ? fact("Parameters", params(job.params)) : null,
      job.after.length ? fact("After", ...links(job.after), " succeeded") : null,
      job.after_any.length ? fact("After", ...links(job.after_any), " ended") : null,
      job.after_pid?.length ? fact("After", `process ${job.after_pid.join(", ")}`, " ended") : null,
      job.time_limit_ms ? fact("Time limit", duration(job.time_limit_ms),
        job.signal_spec ? `, signal ${job.signal_spec}` : "") : null,
      job.retries ? fact("Retries", String(job.retries)) : null,
      job.not_before_ms ? fact("Not before", moment(job.not_before_ms, at)) : null,
      fact("Queued", moment(job.submitted_at_ms, at)),
      job.adopted ? fact("Adopted", `process ${job.adopted}`) : null,
      job.pid && !FINAL.has(job.state) ? fact("Process", String(job.pid)) : null,
      job.log ? fact("Log", h("code", {}, job.log)) : null,
    ].filter(Boolean);
    facts.replaceChildren(...found.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, ...value)]));
  }

  function drawHistory() {
    const at = serverNow();
    const steps = [[job.submitted_at_ms, "queued", "waiting"]];
    for (const one of job.attempts) {
      const where = one.gpus.length ? ` on GPU ${one.gpus.join(", ")}` : "";
      const again = one.attempt > 1 ? `attempt ${one.attempt} ` : "";
      if (one.started_at_ms) steps.push([one.started_at_ms, `${again}started${where}`, "running"]);
      if (one.suspended_at_ms) steps.push([one.suspended_at_ms, `${again}suspended`, "suspended"]);
      if (one.ended_at_ms) steps.push([one.ended_at_ms, `${again}${one.state}${one.reason ? `: ${one.reason}` : ""}`,
        one.state]);
    }
    if (job.ended_at_ms && !job.attempts.some((one) => one.ended_at_ms === job.ended_at_ms)) {
      steps.push([job.ended_at_ms, job.reason ? `${job.state}: ${job.reason}` : job.state, job.state]);
    }
    keyed(history, steps, (step) => `${step[0]} ${step[1]}`,
      () => h("li", { class: "state" }, h("span", { class: "num dim" }), h("span", {})),
      (item, [ms, words, look]) => {
        setData(item, "state", look);
        setText(item.children[0], moment(ms, at));
        setText(item.children[1], words);
      });
  }

  function drawAttempts() {
    setHidden(attempts, job.attempts.length < 2);
    if (job.attempts.length < 2) return;
    const key = JSON.stringify(job.attempts.map((one) => [one.attempt, one.state, one.ended_at_ms]));
    if (attempts.dataset.key === key) return;
    attempts.dataset.key = key;
    clear(attempts);
    attempts.append(h("table", { class: "plain" },
      h("tr", {}, ...["Attempt", "State", "GPU", "Ran", "How", ""].map((word) => h("th", {}, word))),
      ...job.attempts.map((one) => h("tr", {},
        h("td", { class: "num" }, String(one.attempt)),
        h("td", {}, h("span", { class: "state", data: { state: one.state } }, one.state)),
        h("td", {}, one.gpus.join(", ")),
        h("td", { class: "num" },
          one.started_at_ms && one.ended_at_ms ? duration(ran(one, one.ended_at_ms)) : ""),
        h("td", {}, one.reason || exitText(one)),
        h("td", {}, h("button", { type: "button", class: "small",
          onclick: () => { chosenAttempt = one.attempt; drawLog(); } }, "Log"))))));
  }

  function drawLog() {
    const newest = job.attempts.length ? job.attempts[job.attempts.length - 1].attempt : null;
    const wanted = chosenAttempt || newest;
    const running = ["running", "stopping"].includes(job.state) && wanted === newest;
    const none = wanted === null || Boolean(job.adopted); // What it prints does not come to Stoker.
    setHidden(log.element, none);
    if (none) return;
    if (wanted !== shownAttempt) {
      shownAttempt = wanted;
      log.show(wanted, { running, hasErr: Boolean(job.err_log), err: Boolean(linked?.err), at: linked?.at ?? null });
      if (linked) holdInView(log.element);
      linked = null;
    } else log.setRunning(running);
  }

  async function order(name) {
    trouble.clear();
    try {
      if (!(await give(name, [job]))) return;
      if (name === "remove") location.hash = "#/";
      else await refresh();
    } catch (error) {
      trouble.show(error);
    }
  }

  async function priority(step) {
    trouble.clear();
    try {
      await setPriority([job], job.priority + step);
      await refresh();
    } catch (error) {
      trouble.show(error);
    }
  }

  async function edit() {
    try {
      await editDialog(job, async (changed) => {
        const { warnings } = await post("/api/jobs/edit", { ids: [id], ...changed });
        await refresh();
        return warnings;
      });
    } catch (error) {
      trouble.show(error);
    }
  }

  async function askHistory() {
    if (document.hidden || !job || !job.attempts.length) return;
    try {
      const history = await get(`/api/jobs/${id}/history`, { attempt: chosenAttempt });
      const shown = job.attempts.find((one) => one.attempt === chosenAttempt) ?? job.attempts.at(-1);
      const on = now.gpus.filter((gpu) => shown.gpus.includes(gpu.id) && gpu.memory_mib);
      plot.show(history, shown.started_at_ms, on.length ? Math.max(...on.map((gpu) => gpu.memory_mib)) : null);
    } catch {
      // The next time will do.
    }
  }

  const timers = [
    setInterval(() => {
      if (job && !FINAL.has(job.state) && !document.hidden) refresh();
    }, 3000),
    setInterval(askHistory, 5000),
    setInterval(() => job && !document.hidden && drawVitals(), 1000),
  ];

  return {
    element,
    title: `${id}`,
    async open() {
      related.ask();
      await refresh();
      askHistory();
    },
    close() {
      closed = true;
      related.close();
      log.close();
      curves.close();
      timers.forEach(clearInterval);
    },
    hear(change) {
      related.hear(change);
      if (now.link === "live" && (change.link || change.many || change.changed.includes(id))) refresh();
    },
    key(event) {
      if (event.key === "/" || event.key === "l") {
        (event.key === "/" ? log.seek : log.box).focus();
        return true;
      }
      if (!job) return false;
      const can = possible(job);
      const orders = { c: "cancel", r: "retry", h: can.release ? "release" : "hold" };
      if (event.key in orders && can[orders[event.key]]) return order(orders[event.key]), true;
      if (can.edit && (event.key === "+" || event.key === "=")) return priority(-1), true;
      if (can.edit && event.key === "-") return priority(1), true;
      return false;
    },
  };
}

function needText(need) {
  const parts = [];
  if (need.share) parts.push(`${need.share} of a GPU`);
  else parts.push(count(need.gpus, "GPU"));
  if (need.mem_mib) parts.push(`${gib(need.mem_mib)} on each`);
  else if (need.mem === "auto") parts.push("as much memory as jobs like it were seen to use");
  if (need.exclusive) parts.push("exclusive");
  if (need.cpus) parts.push(count(need.cpus, "CPU slot"));
  if (need.on?.length) parts.push(`only on ${need.on.join(", ")}`);
  if (need.prefer?.length) parts.push(`rather on ${need.prefer.join(", ")}`);
  if (need.max_per_gpu) parts.push(`at most ${need.max_per_gpu} on a GPU`);
  return parts.join(", ");
}

function links(ids) {
  return ids.slice(0, 12).flatMap((one, place) => [place ? ", " : "",
    typeof one === "string" ? one : h("a", { href: `#/job/${one}` }, String(one))])
    .concat(ids.length > 12 ? ["…"] : []);
}

function params(values) {
  return h("span", { class: "params" }, ...Object.entries(values).map(([name, value]) =>
    h("span", { class: "param" }, h("span", { class: "dim" }, `${name} `),
      h("bdi", { class: "mono" }, valueText(value)))));
}
