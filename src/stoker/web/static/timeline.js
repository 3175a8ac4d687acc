// Timeline: a row a GPU, a bar a job: the last hours, and what should come.

import { isKnown, keepInAddress } from "./address.js";
import { get } from "./api.js";
import { clear, errorBox, h, hideTip, setHidden, setNote, setText, showTip } from "./dom.js";
import { now, serverNow } from "./feed.js";
import { clockText, count, dayText, duration, fineDuration, fromNow, gaveWay, hourMinute, moment } from "./format.js";
import { label } from "./gpu.js";
import { around, moved, placed, showing, ticks, zoomed } from "./lanes.js";

const RANGES = [["0.25", "15 min"], ["1", "1 h"], ["6", "6 h"], ["24", "24 h"], ["168", "7 d"]];
const NONE = "no GPU";
const HOUR_MS = 3_600_000;
const MOST_HOURS = 24 * 31;
const DRAG_PX = 4;
const EDGE_PX = 24; // Words nearer to an edge would be cut off.
const NAMED = 6; // of the jobs that are counted together
const FIRST_HOURS = "1";
// The part of time that is seen: the last hours up to now, or a part that stands still. The address says it too.
const kept = { hours: FIRST_HOURS, still: null };

function takeAddress(query) {
  if (![...query].length && !isKnown()) return;
  const hours = query.get("hours");
  kept.hours = RANGES.some(([known]) => known === hours) ? hours : FIRST_HOURS;
  const [from, to] = [query.get("from"), query.get("to")].map(Number);
  kept.still = from > 0 && to > from ? { from, to } : null;
}

export function timelineView(address) {
  takeAddress(address);
  const trouble = errorBox();
  const choice = h("div", { class: "choice", role: "group", "aria-label": "How far back" },
    ...RANGES.map(([hours, words]) => h("button",
      { type: "button", data: { hours }, onclick: () => setHours(hours) }, words)));
  const tool = (words, title, act) => h("button", { type: "button", title, "aria-label": title, onclick: act }, words);
  const tools = h("div", { class: "choice", role: "group", "aria-label": "Zoom and move" },
    tool("‹", "Earlier", () => look(moved(seen(), -0.4))), tool("−", "Zoom out", () => look(zoomed(seen(), 2))),
    tool("+", "Zoom in", () => look(zoomed(seen(), 0.5))), tool("›", "Later", () => look(moved(seen(), 0.4))));
  const back = h("button", { type: "button", onclick: () => look(null) }, "Follow now");
  const legend = h("div", { class: "bar legend" },
    ...["running", "succeeded", "failed", "cancelled"]
      .map((state) => h("span", { class: "state", data: { state } }, state)),
    h("span", { class: "state gaveway" }, "gave way"), h("span", { class: "state ahead" }, "expected"),
    h("span", {}, h("span", { class: "tcount example" }, "3"), " jobs too short to draw"));
  const axis = h("div", { class: "axis", "aria-hidden": "true" });
  const rows = h("div", { class: "lanes" });
  const note = h("p", { class: "dim" });
  const empty = h("p", { class: "empty" }, "…");
  const chart = h("div", { class: "timeline card", hidden: true }, h("div", { class: "gutter" }), axis, rows);
  const element = h("div", { class: "stack" },
    h("div", { class: "bar" }, h("h1", {}, "Timeline"), choice, tools, back, h("span", { class: "grow" }), legend),
    trouble.element, chart, empty, note);

  let data = null;
  let closed = false;
  let stale = null;
  let remembering = null;
  let dragged = null; // where the pointer went down, and what was seen then

  // ---- what part of time is seen

  function seen() {
    return kept.still ?? around(serverNow(), Number(kept.hours));
  }

  function setHours(hours) {
    kept.hours = hours;
    look(null);
  }

  // A part of time that stands still; null for one that goes along with now.
  function look(part) {
    kept.still = part;
    showTools();
    rememberSoon();
    if (!data) return;
    draw();
    if (seen().from < data.since_ms) soon(150);
  }

  // Not while one drags: a browser takes only so many changes of the address.
  function rememberSoon() {
    clearTimeout(remembering);
    remembering = setTimeout(remember, 250);
  }

  function remember() {
    const { from, to } = kept.still ?? {};
    keepInAddress({ hours: kept.hours === FIRST_HOURS ? "" : kept.hours, from: from && Math.round(from),
      to: to && Math.round(to) });
  }

  function showTools() {
    for (const button of choice.children) {
      button.setAttribute("aria-pressed", String(!kept.still && button.dataset.hours === kept.hours));
    }
    setHidden(back, !kept.still);
  }

  async function refresh() {
    if (document.hidden) return;
    const hours = Math.min(MOST_HOURS, Math.max(Number(kept.hours), (serverNow() - seen().from) / HOUR_MS + 0.01));
    try {
      data = await get("/api/timeline", { hours });
      trouble.clear();
    } catch (error) {
      if (!closed && error.status) trouble.show(error);
      return;
    }
    if (!closed) draw();
  }

  function soon(ms = 1000) {
    if (stale === null) {
      stale = setTimeout(() => {
        stale = null;
        refresh();
      }, ms);
    }
  }

  // ---- drawing

  function barsOf(at) {
    const ends = new Map(data.ends.map((one) => [`${one.id}.${one.attempt}`, one.ends_at_ms]));
    const past = data.attempts.map((one) => ({ ...one, from: one.started_at_ms, to: one.ended_at_ms ?? at, ahead: false,
      until: one.ended_at_ms ?? ends.get(`${one.id}.${one.attempt}`) ?? null }));
    const ahead = data.ahead.map((one) => {
      const from = Math.max(at, one.starts_at_ms);
      const to = one.ends_at_ms && Math.max(from, one.ends_at_ms);
      return { ...one, from, to, until: to ?? null, ahead: true, state: "waiting" };
    });
    return [...past, ...ahead];
  }

  function draw() {
    const at = serverNow();
    const bars = barsOf(at);
    setHidden(empty, bars.length > 0);
    setHidden(chart, bars.length === 0);
    setNote(empty, "Nothing has run in this time.", "#/submit", "Submit a job");
    setText(note, data.more ? "There is more than can be shown: the latest is." : "");
    if (!bars.length) return;
    const view = { ...seen(), width: Math.max(50, axis.getBoundingClientRect().width) };
    const nowPx = ((at - view.from) / (view.to - view.from)) * view.width;
    drawAxis(view, nowPx);
    drawRows(bars, view, at, nowPx);
  }

  // The line that says where now is, if that is seen.
  function nowMark(px, width) {
    if (px < 0 || px > width) return [];
    const mark = h("i", { class: "now", title: "now" });
    mark.style.left = `${px}px`;
    return [mark];
  }

  function drawAxis(view, nowPx) {
    const words = ({ ms, isDay, step }) => {
      if (isDay) return dayText(ms);
      if (step < 1000) return `${clockText(ms)}.${Math.floor(ms % 1000 / 100)}`;
      return step < 60_000 ? clockText(ms) : hourMinute(ms);
    };
    const px = (ms) => ((ms - view.from) / (view.to - view.from)) * view.width;
    const fits = ({ ms }) => px(ms) > EDGE_PX && px(ms) < view.width - EDGE_PX;
    const marks = ticks(view, view.width, 72).filter(fits).map((tick) => {
      const mark = h("span", {}, words(tick));
      mark.style.left = `${px(tick.ms)}px`;
      return mark;
    });
    axis.replaceChildren(...marks, ...nowMark(nowPx, view.width));
  }

  function drawRows(bars, view, at, nowPx) {
    const known = new Map(now.gpus.map((gpu) => [gpu.id, []]));
    for (const bar of bars) {
      for (const gpu of bar.gpus.length ? bar.gpus : [NONE]) {
        if (!known.has(gpu)) known.set(gpu, []);
        known.get(gpu).push(bar);
      }
    }
    const names = new Map(now.gpus.map((gpu) => [gpu.id, label(gpu)]));
    const focus = document.activeElement?.dataset?.bar;
    clear(rows);
    for (const [gpu, own] of known) {
      const { bars: drawn, lanes, counted } = placed(own, view);
      const track = h("div", { class: "track" });
      track.style.setProperty("--lanes", lanes);
      track.style.setProperty("--counts", counted.length ? 1 : 0);
      for (const one of drawn) track.append(bar(one, at));
      for (const one of counted) track.append(countOf(one, at));
      track.append(...nowMark(nowPx, view.width));
      rows.append(h("div", { class: "lane", "aria-label": gpu === NONE ? NONE : `GPU ${names.get(gpu) ?? gpu}` },
        h("span", { class: "cut" }, gpu === NONE ? NONE : `GPU ${names.get(gpu) ?? gpu}`), track));
    }
    if (focus) rows.querySelector(`[data-bar="${CSS.escape(focus)}"]`)?.focus();
  }

  function looks(look) {
    return { onpointermove: look, onfocus: look, onpointerleave: hideTip, onblur: hideTip, draggable: false };
  }

  function bar(one, at) {
    const { job, left, width, lane, rest, open } = one;
    const words = job.name || `job ${job.id}`;
    const yielded = gaveWay(job);
    const kinds = Object.entries({ ahead: job.ahead, rest, open, gaveway: yielded }).filter(([, is]) => is);
    const element = h("a", {
      class: ["tbar", ...kinds.map(([kind]) => kind)].join(" "),
      href: `#/job/${job.id}`,
      data: { state: rest ? "waiting" : job.state, bar: `${job.id}.${job.attempt || "next"}${rest ? ".rest" : ""}` },
      tabIndex: rest ? -1 : 0,
      "aria-label": `${words}, ${yielded || (job.ahead ? "expected" : job.state)}`,
      ...looks((event) => tell(event, one, at)),
    }, width > 34 && !rest ? h("span", {}, words) : "");
    element.style.left = `${left}px`;
    element.style.width = `${width}px`;
    element.style.setProperty("--lane", lane);
    return element;
  }

  function tell(event, { job }, at) {
    const title = h("b", {}, `${job.id} ${job.name || ""}`);
    if (job.ahead) {
      showTip(event, title, `expected to start ${fromNow(job.from, at)}`,
        job.to ? `, to run ${duration(job.to - job.from)}` : ", run time unknown");
      return;
    }
    const soon = job.until ? `; expected to end ${fromNow(job.until, at)}` : "; it is not known when it ends";
    showTip(event, title, `${gaveWay(job) || job.state}, ${moment(job.from, at)}`,
      job.ended_at_ms ? ` – ${moment(job.ended_at_ms, at)}` : "", ` (${fineDuration(job.to - job.from)})`,
      job.ended_at_ms ? "" : soon);
  }

  // Jobs that are too small to be drawn: how many, and on a click all of them, or the one.
  function countOf({ left, width, jobs }, at) {
    const [job] = jobs;
    const words = jobs.length === 1 ? job.name || `job ${job.id}` : count(jobs.length, "job");
    const only = jobs.length === 1;
    const element = h(only ? "a" : "button", {
      class: "tcount", ...(only ? { href: `#/job/${job.id}` } : { type: "button", onclick: () => look(showing(jobs)) }),
      data: { state: stateOf(jobs), bar: `many.${job.id}.${job.attempt}` },
      "aria-label": `${words}, too short to draw: ${statesText(jobs)}`,
      ...looks((event) => (only ? tell(event, { job }, at) : tellMany(event, jobs, at))),
    }, shortCount(jobs.length));
    element.style.left = `${left}px`;
    element.style.width = `${width}px`;
    return element;
  }

  function tellMany(event, jobs, at) {
    const first = jobs.slice(0, NAMED).map((job) => h("div", {}, `${job.id} ${job.name || ""}`));
    showTip(event, h("b", {}, `${count(jobs.length, "job")}: ${statesText(jobs)}`),
      h("div", {}, `from ${moment(jobs[0].from, at)}. Click to zoom in.`), ...first, jobs.length > NAMED ? "…" : "");
  }

  // ---- zoom by the wheel, pan by dragging

  function placeOf(event) {
    const box = axis.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
  }

  chart.addEventListener("wheel", (event) => {
    const across = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
    if (!event.ctrlKey && Math.abs(across) <= Math.abs(event.deltaY) && !event.shiftKey) return; // The page scrolls.
    event.preventDefault();
    if (event.ctrlKey) look(zoomed(seen(), Math.exp(event.deltaY / 300), placeOf(event)));
    else look(moved(seen(), across / axis.getBoundingClientRect().width));
  }, { passive: false });

  chart.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && event.pointerType === "mouse") dragged = { x: event.clientX, view: seen(), far: false };
  });

  function drag(event) {
    if (!dragged) return;
    const far = event.clientX - dragged.x;
    dragged.far ||= Math.abs(far) > DRAG_PX;
    if (dragged.far) look(moved(dragged.view, -far / axis.getBoundingClientRect().width));
  }

  function drop() {
    if (dragged?.far) addEventListener("click", (event) => event.preventDefault(), { once: true, capture: true });
    dragged = null;
  }

  const timer = setInterval(() => data && !document.hidden && !kept.still && draw(), 5000);
  const resized = () => data && draw();

  return {
    element,
    title: "Timeline",
    open() {
      addEventListener("resize", resized);
      addEventListener("pointermove", drag);
      addEventListener("pointerup", drop);
      showTools();
      remember();
      refresh();
    },
    close() {
      closed = true;
      removeEventListener("resize", resized);
      removeEventListener("pointermove", drag);
      removeEventListener("pointerup", drop);
      clearInterval(timer);
      clearTimeout(stale);
      clearTimeout(remembering);
    },
    hear(change) {
      if (change.many || change.changed.length) soon();
    },
    key(event) {
      switch (event.key) {
        case "+": case "=": look(zoomed(seen(), 0.5)); return true;
        case "-": look(zoomed(seen(), 2)); return true;
        case "ArrowLeft": look(moved(seen(), -0.2)); return true;
        case "ArrowRight": look(moved(seen(), 0.2)); return true;
        case "0": look(null); return true;
      }
      return false;
    },
  };
}

// What is said of many jobs by one colour: the worst of them, or nothing if they differ.
function stateOf(jobs) {
  const states = new Set(jobs.map((job) => job.state));
  return ["failed", "lost"].find((state) => states.has(state)) ?? (states.size === 1 ? jobs[0].state : "mixed");
}

function statesText(jobs) {
  const many = new Map();
  for (const { state } of jobs) many.set(state, (many.get(state) || 0) + 1);
  return [...many].map(([state, number]) => `${number} ${state}`).join(", ");
}

function shortCount(number) {
  return number < 1000 ? String(number) : `${Math.floor(number / 1000)}k`;
}
