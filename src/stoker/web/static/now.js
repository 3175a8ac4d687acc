// Now: the GPUs, the totals, and the queue.

import { get, post } from "./api.js";
import { isKnown, keepInAddress } from "./address.js";
import { ChosenBar } from "./chosenbar.js";
import { errorBox, h, setData, setHidden, setText } from "./dom.js";
import { now, serverNow } from "./feed.js";
import { withGroup } from "./filter.js";
import { count, duration, exitText, FINAL, fromNow, moment, need, ran, stateShown } from "./format.js";
import { gpuSection } from "./gpus.js";
import { WindowedList } from "./list.js";
import { possible, setPriority } from "./orders.js";

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
const FILTER_HELP = "Words in the id, name, group or command; state: group: name: user: gpu: since: with * and ?, "
  + "lists by commas; -word for what is not so; quotes for what has spaces";

const SORTS = new Set(["id", "state", "name", "time", "priority", "user"]);
// What the list is like. The address says it too; this is for links that lead here without saying it.
const kept = { shown: "all", text: "", sort: {}, chosen: "" };

function takeAddress(query) {
  if (![...query].length && !isKnown()) return;
  const shown = query.get("show");
  kept.shown = SHOWN.some(([key]) => key === shown) ? shown : "all";
  kept.text = query.get("text") || "";
  const sort = query.get("sort");
  kept.sort = SORTS.has(sort) ? { sort, descending: query.has("down") || undefined } : {};
  kept.chosen = query.get("chosen") || "";
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

  const filter = h("input", { type: "search", placeholder: "Filter: lr state:failed group:sweep since:2h…",
    title: FILTER_HELP, "aria-label": "Filter", value: kept.text, class: "filter" });
  const choice = h("div", { class: "choice", role: "group", "aria-label": "Which jobs" },
    ...SHOWN.map(([key, title]) => h("button",
      { type: "button", data: { key }, "aria-pressed": String(key === kept.shown), onclick: () => setShown(key) },
      title)));
  const size = h("span", { class: "dim num size" });
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
    change: (row, job) => changeRow(row, job, starts, setGroup, list.chosen.all),
    open: (job) => go(job),
    empty: () => (kept.text || kept.shown !== "all"
      ? ["No job is like that. ", h("button", { type: "button", onclick: showAll }, "Show all jobs")]
      : ["Nothing has been queued yet. ", h("a", { href: "#/submit" }, "Submit a job")]),
  });
  list.query = query();
  const bar = new ChosenBar(list, trouble, (chosen) => {
    kept.chosen = chosen;
    remember();
  });
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
      h("div", { class: "bar tools" }, choice, filter, h("span", { class: "grow" }), size),
      bar.element,
      list.element));

  function query() {
    const states = SHOWN.find(([key]) => key === kept.shown)[2];
    return { states, text: kept.text.trim(), ...kept.sort };
  }

  const ask = () => list.ask(query());

  function remember() {
    keepInAddress({ show: kept.shown === "all" ? "" : kept.shown, text: kept.text, sort: kept.sort.sort,
      down: kept.sort.descending ? 1 : "", chosen: kept.chosen });
  }

  function setShown(key) {
    kept.shown = key;
    for (const button of choice.children) button.setAttribute("aria-pressed", String(button.dataset.key === key));
    ask();
  }

  function search(text) {
    clearTimeout(typing);
    filter.value = kept.text = text;
    ask();
  }

  const setGroup = (name) => search(withGroup(kept.text, name));

  function showAll() {
    search("");
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

  const MOVES = { j: 1, J: 1, ArrowDown: 1, k: -1, K: -1, ArrowUp: -1 };
  const toggle = (job, range) => list.choose(job, !list.chosen.has(job.id), range);
  const OF_JOB = {
    Enter: go,
    l: go,
    " ": toggle,
    c: (job) => bar.order("cancel", [job]),
    r: (job) => bar.order("retry", [job]),
    h: (job) => bar.order(job.state === "held" ? "release" : "hold", [job]),
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
      if (chosenBefore) bar.again(chosenBefore);
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
      bar.look(change);
      if (!starts.size && performance.now() - forecastAt > FORECAST_MS / 3) askForecast();
    },
    key({ key, shiftKey }) {
      const act = (job) => job && OF_JOB[key](job, shiftKey);
      if (key === "/") {
        filter.focus();
        filter.select();
      } else if (key in MOVES) list.loaded(() => step(MOVES[key], shiftKey));
      else if (key === "a") list.loaded(() => list.chooseAll(!list.chosen.some));
      else if (key in OF_JOB && (!list.isLoaded || list.at())) list.loaded(() => act(list.at()));
      else return false;
      return true;
    },
  };

  // With shift, what one goes over is chosen.
  function step(by, choose) {
    const from = list.at();
    list.move(by);
    const to = list.at();
    if (!choose || !from || !to) return;
    if (!list.chosen.has(from.id)) list.choose(from, true);
    list.choose(to, true);
  }

  async function change(job, step) {
    if (!possible(job).edit) return;
    trouble.clear();
    try {
      await setPriority([job], job.priority + step);
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

function changeRow(row, job, starts, setGroup, areAll) {
  const { cells } = row;
  const at = serverNow();
  const box = cells.pick.firstChild;
  box.checked = row.dataset.chosen === "yes";
  box.disabled = areAll; // None of them can be left out.
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
