// Timeline: a row a GPU, a bar a job: the last hours, and what should come.

import { get } from "./api.js";
import { clear, errorBox, h, hideTip, setHidden, setText, showTip } from "./dom.js";
import { now, serverNow } from "./feed.js";
import { dayText, duration, fromNow, hourMinute, moment } from "./format.js";
import { label } from "./gpu.js";

const RANGES = [["1", "1 h"], ["6", "6 h"], ["24", "24 h"], ["168", "7 d"]];
const NONE = "no GPU";
const NARROW_PX = 3; // Bars thinner than this that touch are drawn as one.
const MOST_LANES = 6;
const kept = { hours: "1" };

export function timelineView() {
  const trouble = errorBox();
  const choice = h("div", { class: "choice", role: "group", "aria-label": "How far back" },
    ...RANGES.map(([hours, words]) => h("button",
      { type: "button", data: { hours }, "aria-pressed": String(hours === kept.hours), onclick: () => setHours(hours) },
      words)));
  const legend = h("div", { class: "bar legend" },
    ...["running", "succeeded", "failed", "cancelled"]
      .map((state) => h("span", { class: "state", data: { state } }, state)),
    h("span", { class: "state ahead" }, "expected"));
  const axis = h("div", { class: "axis", "aria-hidden": "true" });
  const rows = h("div", { class: "lanes" });
  const note = h("p", { class: "dim" });
  const empty = h("p", { class: "empty" }, "…");
  const chart = h("div", { class: "timeline card", hidden: true }, h("div", { class: "gutter" }), axis, rows);
  const element = h("div", { class: "stack" },
    h("div", { class: "bar" }, h("h1", {}, "Timeline"), choice, h("span", { class: "grow" }), legend), trouble.element,
    chart, empty, note);

  let data = null;
  let closed = false;
  let stale = null;

  function setHours(hours) {
    kept.hours = hours;
    for (const button of choice.children) button.setAttribute("aria-pressed", String(button.dataset.hours === hours));
    refresh();
  }

  async function refresh() {
    if (document.hidden) return;
    try {
      data = await get("/api/timeline", { hours: kept.hours });
      trouble.clear();
    } catch (error) {
      if (!closed && error.status) trouble.show(error);
      return;
    }
    if (!closed) draw();
  }

  function soon() {
    if (stale === null) {
      stale = setTimeout(() => {
        stale = null;
        refresh();
      }, 1000);
    }
  }

  function draw() {
    const at = serverNow();
    const bars = [
      ...data.attempts.map((one) => ({ ...one, from: one.started_at_ms, to: one.ended_at_ms ?? at, ahead: false })),
      ...data.ahead.map((one) => ({ ...one, from: Math.max(at, one.starts_at_ms),
        to: one.ends_at_ms && Math.max(at + 1000, one.ends_at_ms), ahead: true, state: "waiting" })),
    ];
    setHidden(empty, bars.length > 0);
    setHidden(chart, bars.length === 0);
    setText(empty, "Nothing has run in this time.");
    setText(note, data.more ? "There is more than can be shown: the latest is." : "");
    if (!bars.length) return;
    const past = Number(kept.hours) * 3_600_000;
    const last = Math.max(0, ...data.ahead.map((one) => (one.ends_at_ms ?? one.starts_at_ms) - at));
    // Early on there is little to see: the picture begins where something does.
    const first = Math.min(...bars.map((bar) => bar.from));
    const begin = Math.max(at - past, Math.min(first - (at - first) * 0.03, at - 120_000));
    const end = at + Math.max((at - begin) * 0.05, Math.min(last * 1.1, past * 0.6));
    const width = Math.max(50, axis.getBoundingClientRect().width);
    const scale = (ms) => ((ms - begin) / (end - begin)) * width;
    drawAxis(begin, end, at, scale);
    drawRows(bars, scale, width, at);
  }

  function drawAxis(begin, end, at, scale) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440].map((minutes) => minutes * 60_000);
    const width = axis.getBoundingClientRect().width;
    const step = steps.find((one) => ((end - begin) / one) * 62 < width) || steps[steps.length - 1];
    const zone = new Date(begin).getTimezoneOffset() * 60_000;
    const marks = [];
    for (let ms = Math.ceil((begin - zone) / step) * step + zone; ms < end; ms += step) {
      const mark = h("span", {}, step >= 86_400_000 ? dayText(ms) : hourMinute(ms));
      mark.style.left = `${scale(ms)}px`;
      marks.push(mark);
    }
    const line = h("i", { class: "now", title: "now" });
    line.style.left = `${scale(at)}px`;
    axis.replaceChildren(...marks, line);
  }

  function drawRows(bars, scale, width, at) {
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
      const drawn = placed(own, scale, width);
      const lanes = Math.max(1, ...drawn.map((one) => one.lane + 1));
      const track = h("div", { class: "track" });
      track.style.setProperty("--lanes", Math.min(lanes, MOST_LANES));
      for (const one of drawn) track.append(bar(one, at));
      const mark = h("i", { class: "now" });
      mark.style.left = `${scale(at)}px`;
      track.append(mark);
      rows.append(h("div", { class: "lane", "aria-label": gpu === NONE ? NONE : `GPU ${names.get(gpu) ?? gpu}` },
        h("span", { class: "cut" }, gpu === NONE ? NONE : `GPU ${names.get(gpu) ?? gpu}`), track));
    }
    if (focus) rows.querySelector(`[data-bar="${CSS.escape(focus)}"]`)?.focus();
  }

  function bar(one, at) {
    const { job, left, width, lane, many } = one;
    const words = many > 1 ? `${many} jobs` : job.name || `job ${job.id}`;
    const element = h("a", {
      class: `tbar${job.ahead ? " ahead" : ""}${job.ahead && !job.to ? " open" : ""}`,
      href: `#/job/${job.id}`,
      data: { state: job.state, bar: `${job.id}.${job.attempt || "next"}` },
      "aria-label": `${words}, ${job.ahead ? "expected" : job.state}`,
      onpointermove: (event) => tell(event, one, at),
      onfocus: (event) => tell(event, one, at),
      onpointerleave: hideTip,
      onblur: hideTip,
    }, width > 34 ? words : "");
    element.style.left = `${left}px`;
    element.style.width = `${width}px`;
    element.style.setProperty("--lane", Math.min(lane, MOST_LANES - 1));
    return element;
  }

  function tell(event, { job, many }, at) {
    const title = h("b", {}, many > 1 ? `${many} jobs, one after the other` : `${job.id} ${job.name || ""}`);
    if (job.ahead) {
      showTip(event, title, `expected to start ${fromNow(job.from, at)}`,
        job.to ? `, to run ${duration(job.to - job.from)}` : ", run time unknown");
      return;
    }
    showTip(event, title, `${job.state}, ${moment(job.from, at)}`,
      job.ended_at_ms ? ` – ${moment(job.ended_at_ms, at)}` : "", ` (${duration(job.to - job.from)})`);
  }

  const timer = setInterval(() => data && (now.active.length ? draw() : null), 5000);
  const resized = () => data && draw();

  return {
    element,
    title: "Timeline",
    open() {
      addEventListener("resize", resized);
      refresh();
    },
    close() {
      closed = true;
      removeEventListener("resize", resized);
      clearInterval(timer);
      clearTimeout(stale);
    },
    hear(change) {
      if (change.many || change.changed.length) soon();
    },
  };
}

// Where each bar goes: jobs that share a GPU have lanes of their own, and many become one bar.
function placed(bars, scale, width) {
  const found = [];
  const ends = [];
  for (const job of [...bars].sort((a, b) => a.from - b.from)) {
    const left = Math.max(0, scale(job.from));
    const right = Math.min(width, job.to === null || job.to === undefined ? width : scale(job.to));
    if (right < 0 || left > width) continue;
    const size = Math.max(2, right - left);
    let lane = ends.findIndex((end) => left >= end.px - 0.5);
    if (lane < 0) lane = ends.length;
    const before = ends[lane]?.one;
    if (before && size < NARROW_PX && before.width < 40 && left - (before.left + before.width) < 1.5
      && before.job.state === job.state && before.job.ahead === job.ahead && before.narrow) {
      before.width = left + size - before.left;
      before.many += 1;
      before.job = { ...before.job, to: job.to, ended_at_ms: job.ended_at_ms };
      ends[lane] = { px: left + size, one: before };
      continue;
    }
    const one = { job, left, width: size, lane, many: 1, narrow: size < NARROW_PX };
    ends[lane] = { px: left + size, one };
    found.push(one);
  }
  return found;
}
