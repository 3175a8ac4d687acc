// Now: the GPUs, the totals, and the queue.

import { get, post } from "./api.js";
import { isKnown, keepInAddress } from "./address.js";
import { compareAddress } from "./compare.js";
import { errorBox, h, setData, setHidden, setText } from "./dom.js";
import { now, serverNow } from "./feed.js";
import { count, duration, exitText, FINAL, fromNow, moment, need, ran, stateShown } from "./format.js";
import { gpuSection } from "./gpus.js";
import { WindowedList } from "./list.js";
import { logsAddress } from "./sidelogs.js";
import { give, latest, possible, setPriority } from "./orders.js";

const SHOWN = [
  ["all", "All", []],
  ["active", "Running", ["running", "stopping"]],
  ["queued", "Waiting", ["submitted", "waiting", "held"]],
  ["ended", "Ended", ["succeeded", "stopped", "failed", "cancelled", "skipped", "lost"]],
  ["failed", "Failed", ["failed", "lost"]],
];
const COUNTED = ["running", "stopping", "submitted", "waiting", "held", "succeeded", "stopped", "failed", "cancelled",
  "skipped", "lost"];
const FORECAST_MS = 6000;

const SORTS = new Set(["id", "state", "name", "time", "priority", "user"]);
const MOST_CHOSEN_KEPT = 200;
// What the list is like. The address says it too; this is for links that lead here without saying it.
const kept = { shown: "all", text: "", group: "", sort: {}, chosen: [] };

function takeAddress(query) {
  if (![...query].length && !isKnown()) return;
  const shown = query.get("show");
  kept.shown = SHOWN.some(([key]) => key === shown) ? shown : "all";
  kept.text = query.get("text") || "";
  kept.group = query.get("group") || "";
  const sort = query.get("sort");
  kept.sort = SORTS.has(sort) ? { sort, descending: query.has("down") || undefined } : {};
  kept.chosen = (query.get("chosen") || "").split(",").map(Number).filter(Number.isSafeInteger).filter(Boolean);
}

export function nowView(address) {
  takeAddress(address);
  const chosenBefore = kept.chosen;
  const gpus = gpuSection();
  const totals = h("div", { class: "totals" });
  const cpus = h("span", { class: "dim num" });
  const pause = h("button", { type: "button", class: "write", onclick: () => order(now.paused ? "resume" : "pause") },
    "Pause");
  const trouble = errorBox();

  const chips = new Map();
  for (const state of COUNTED) {
    const number = h("b", { class: "num" }, "0");
    const chip = h("span", { class: "state total", data: { state } }, number, ` ${state}`);
    chips.set(state, { chip, number });
    totals.append(chip);
  }

  const filter = h("input", { type: "search", placeholder: "Filter: name, command, id…", "aria-label": "Filter",
    value: kept.text, class: "filter" });
  const group = h("button", { type: "button", class: "small", hidden: !kept.group, title: "Show all groups",
    onclick: () => setGroup("") });
  const choice = h("div", { class: "choice", role: "group", "aria-label": "Which jobs" },
    ...SHOWN.map(([key, title]) => h("button",
      { type: "button", data: { key }, "aria-pressed": String(key === kept.shown), onclick: () => setShown(key) },
      title)));
  const size = h("span", { class: "dim num size" });
  const chosenBar = h("div", { class: "bar chosen write" });
  const chosenCount = h("b", {});
  const chosenButtons = ["cancel", "retry", "hold", "release", "remove"].map((name) =>
    h("button", { type: "button", class: `small${name === "cancel" || name === "remove" ? " danger" : ""}`,
      data: { order: name }, onclick: () => giveAll(name) }, name[0].toUpperCase() + name.slice(1)));
  const compare = h("a", { class: "button small" }, "Compare");
  const logs = h("a", { class: "button small" }, "Logs");
  chosenBar.append(chosenCount, ...chosenButtons, compare, logs,
    h("button", { type: "button", class: "small quiet", onclick: () => list.chooseNone() }, "None"));

  const starts = new Map();
  const list = new WindowedList({
    path: "/api/jobs",
    columns: [
      { key: "pick", title: "" },
      { key: "id", title: "Id", sort: "id" },
      { key: "state", title: "State", sort: "state" },
      { key: "name", title: "Job", sort: "name" },
      { key: "need", title: "Needs" },
      { key: "gpus", title: "GPU" },
      { key: "why", title: "Why, or how it ended" },
      { key: "when", title: "Start / run time", sort: "time", hint: "Sort by run time" },
      { key: "prio", title: "Priority", sort: "priority", hint: "Sort by priority: lower goes first" },
      { key: "user", title: "User", sort: "user" },
    ],
    make: makeRow,
    change: (row, job) => changeRow(row, job, starts, setGroup),
    open: (job) => go(job),
    empty: () => (kept.text || kept.group || kept.shown !== "all"
      ? ["No job is like that. ", h("button", { type: "button", onclick: showAll }, "Show all jobs")]
      : ["Nothing has been queued yet. ", h("a", { href: "#/submit" }, "Submit a job")]),
  });
  list.query = query();
  list.onchosen = showChosen;
  list.onask = ({ sort, descending }) => {
    kept.sort = sort ? { sort, descending } : {};
    remember();
  };

  const element = h("div", { class: "stack now" },
    h("h1", { class: "hidden" }, "Now"),
    h("section", { class: "bar summary", "aria-label": "Totals" },
      totals, h("span", { class: "grow" }), cpus, gpus.tools, pause),
    trouble.element,
    gpus.element,
    h("section", { class: "queue", "aria-label": "Jobs" },
      h("div", { class: "bar tools" }, choice, filter, group, h("span", { class: "grow" }), size),
      chosenBar,
      list.element));

  function query() {
    const states = SHOWN.find(([key]) => key === kept.shown)[2];
    return { states, text: kept.text.trim(), group: kept.group || undefined, ...kept.sort };
  }

  const ask = () => list.ask(query());

  function remember() {
    keepInAddress({ show: kept.shown === "all" ? "" : kept.shown, text: kept.text, group: kept.group,
      sort: kept.sort.sort, down: kept.sort.descending ? 1 : "", chosen: kept.chosen.join(",") });
  }

  function setShown(key) {
    kept.shown = key;
    for (const button of choice.children) button.setAttribute("aria-pressed", String(button.dataset.key === key));
    ask();
  }

  function setGroup(name) {
    kept.group = name;
    setHidden(group, !name);
    setText(group, `group ${name} ✕`);
    ask();
  }
  if (kept.group) setText(group, `group ${kept.group} ✕`);

  function showAll() {
    clearTimeout(typing);
    filter.value = kept.text = "";
    setGroup("");
    setShown("all");
  }

  let typing = null;
  function typed() {
    clearTimeout(typing);
    typing = null;
    kept.text = filter.value;
    ask();
  }
  filter.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(typed, 180);
  });
  // Who leaves the field has done with typing.
  filter.addEventListener("change", () => typing !== null && typed());

  function go(job) {
    location.hash = `#/job/${job.id}`;
  }

  async function order(name) {
    trouble.clear();
    try {
      await post(`/api/queue/${name}`, {});
    } catch (error) {
      trouble.show(error);
    }
  }

  async function giveAll(name, jobs = [...list.chosen.values()]) {
    trouble.clear();
    try {
      if (await give(name, jobs)) {
        list.chooseNone();
        list.refresh();
      }
    } catch (error) {
      trouble.show(error);
    }
  }

  function showChosen() {
    const jobs = [...list.chosen.values()];
    chosenBar.classList.toggle("some", jobs.length > 0);
    setText(chosenCount, jobs.length ? `${count(jobs.length, "job")} chosen` : "");
    compare.href = compareAddress(list.chosen.keys());
    logs.href = logsAddress(list.chosen.keys());
    for (const button of chosenButtons) button.disabled = !jobs.some((job) => possible(job)[button.dataset.order]);
    kept.chosen = [...list.chosen.keys()].slice(0, MOST_CHOSEN_KEPT);
    remember();
  }

  // What was chosen when one was here before.
  async function chooseAgain(ids) {
    try {
      for (const [id, job] of await latest(ids)) list.chosen.set(id, job);
      showChosen();
      list.draw();
    } catch {
      // They can be chosen again.
    }
  }

  // What is chosen and not seen is asked for, so that the buttons fit what it is now.
  async function lookAtChosen({ changed, many }) {
    const ids = [...list.chosen.keys()].filter((id) => many || changed.includes(id));
    if (!ids.length) return;
    try {
      const now = await latest(ids);
      for (const id of ids) {
        if (!list.chosen.has(id)) continue;
        if (now.has(id)) list.chosen.set(id, now.get(id));
        else list.chosen.delete(id);
      }
      showChosen();
    } catch {
      // An order looks again.
    }
  }

  function drawTop() {
    for (const [state, { chip, number }] of chips) {
      const value = now.counts[state] || 0;
      setText(number, value.toLocaleString("en"));
      setHidden(chip, value === 0 && !["running", "waiting", "succeeded", "failed"].includes(state));
    }
    setText(cpus, now.cpus.total ? `${now.cpus.used} of ${now.cpus.total} CPU slots` : "");
    setText(pause, now.paused ? "Resume the queue" : "Pause the queue");
    gpus.draw();
  }

  let forecastAt = 0;
  async function askForecast() {
    if (document.hidden || !(now.counts.waiting > 0)) return;
    forecastAt = performance.now();
    try {
      const answer = await get("/api/forecast");
      starts.clear();
      for (const start of answer.starts) starts.set(start.id, start.starts_at_ms);
      list.draw();
    } catch {
      // The next time will do.
    }
  }

  const MOVES = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
  const OF_JOB = {
    Enter: go,
    l: go,
    " ": (job) => list.choose(job, !list.chosen.has(job.id)),
    c: (job) => giveAll("cancel", [job]),
    r: (job) => giveAll("retry", [job]),
    h: (job) => giveAll(job.state === "held" ? "release" : "hold", [job]),
    "+": (job) => change(job, -1),
    "=": (job) => change(job, -1),
    "-": (job) => change(job, 1),
  };

  const timers = [
    setInterval(() => {
      drawTop();
      list.draw();
    }, 1000),
    setInterval(askForecast, FORECAST_MS),
  ];

  let sized = null;
  const watchSize = () => {
    if (list.total !== sized) {
      sized = list.total;
      setText(size, sized === null ? "" : count(sized, "job"));
    }
  };
  const draw = list.draw.bind(list);
  list.draw = () => {
    draw();
    watchSize();
  };

  return {
    element,
    open() {
      list.open();
      if (chosenBefore.length) chooseAgain(chosenBefore);
      drawTop();
      gpus.open();
      askForecast();
    },
    close() {
      clearTimeout(typing);
      list.close();
      gpus.close();
      timers.forEach(clearInterval);
    },
    hear(change) {
      drawTop();
      if (change.many || change.changed.length) list.refreshSoon();
      lookAtChosen(change);
      if (!starts.size && performance.now() - forecastAt > FORECAST_MS / 3) askForecast();
    },
    key({ key }) {
      if (key === "/") {
        filter.focus();
        filter.select();
      } else if (key in MOVES) list.loaded(() => list.move(MOVES[key]));
      else if (key in OF_JOB && !list.isLoaded) list.loaded(() => list.at() && OF_JOB[key](list.at()));
      else if (key in OF_JOB && list.at()) OF_JOB[key](list.at());
      else return false;
      return true;
    },
  };

  async function change(job, step) {
    if (!possible(job).edit) return;
    trouble.clear();
    try {
      await setPriority(job, job.priority + step);
      list.refresh();
    } catch (error) {
      trouble.show(error);
    }
  }
}

function makeRow() {
  const cells = {
    pick: h("div", { class: "cell c-pick write" }, h("input", { type: "checkbox", "aria-label": "Choose" })),
    id: h("div", { class: "cell c-id num" }, h("a", {})),
    state: h("div", { class: "cell c-state state" }),
    name: h("div", { class: "cell c-name cut" }, h("bdi", { class: "title" }),
      h("button", { type: "button", class: "group" }), h("bdi", { class: "command mono dim" })),
    need: h("div", { class: "cell c-need dim cut" }),
    gpus: h("div", { class: "cell c-gpus cut num" }),
    why: h("div", { class: "cell c-why cut" }),
    when: h("div", { class: "cell c-when num" }),
    prio: h("div", { class: "cell c-prio num dim" }),
    user: h("div", { class: "cell c-user cut dim" }),
  };
  const row = h("div", { class: "row", role: "row" }, ...Object.values(cells));
  for (const cell of row.children) cell.setAttribute("role", "cell");
  row.cells = cells;
  cells.name.children[1].addEventListener("click", () => row.onGroup?.());
  return row;
}

function changeRow(row, job, starts, setGroup) {
  const { cells } = row;
  const at = serverNow();
  const box = cells.pick.firstChild;
  box.checked = row.dataset.chosen === "yes";
  const link = cells.id.firstChild;
  setText(link, job.id);
  if (link.getAttribute("href") !== `#/job/${job.id}`) link.setAttribute("href", `#/job/${job.id}`);
  setData(cells.state, "state", stateShown(job));
  setText(cells.state, stateShown(job));
  const [title, group, command] = cells.name.children;
  setText(title, job.name || job.command);
  setText(command, job.name ? job.command : "");
  setText(group, job.group || "");
  setHidden(group, !job.group);
  row.onGroup = () => setGroup(job.group);
  cells.name.title = job.command;
  setText(cells.need, need(job.need));
  setText(cells.gpus, FINAL.has(job.state) || job.started_at_ms ? job.gpus.join(", ") : "");
  const place = job.position ? `${job.position}. ` : "";
  const how = job.reason || (FINAL.has(job.state) && job.state !== "succeeded" ? exitText(job) : "");
  setText(cells.why, place + how);
  cells.why.title = how;
  setText(cells.when, when(job, starts, at));
  cells.when.title = job.started_at_ms
    ? `started ${moment(job.started_at_ms, at)}${job.ended_at_ms ? `, ended ${moment(job.ended_at_ms, at)}` : ""}`
    : `queued ${moment(job.queued_at_ms ?? job.submitted_at_ms, at)}`;
  setText(cells.prio, job.priority);
  setText(cells.user, job.user);
}

function when(job, starts, at) {
  if (job.started_at_ms) return duration(ran(job, at));
  if (job.state === "waiting" && starts.has(job.id)) return fromNow(starts.get(job.id), at);
  return "";
}
