// Usage: what the GPUs were used for over days, how jobs ended, how long they waited.

import { get } from "./api.js";
import { keepInAddress } from "./address.js";
import { Bars } from "./bars.js";
import { errorBox, h, setHidden, setText } from "./dom.js";
import { serverNow } from "./feed.js";
import { count, dayText, duration, hourMinute, STATES } from "./format.js";
import { capacityOf, edgesOf, hours, layersOf, percent, RANGES } from "./stretches.js";

const MOST_LAYERS = 7; // that can be told apart
const AGAIN_MS = 60_000;
const BY = [["groups", "by group"], ["users", "by user"]];

export function usageView(query) {
  let range = RANGES.some(([key]) => key === query.get("range")) ? query.get("range") : "7d";
  let by = query.get("by") === "users" ? "users" : "groups";
  const trouble = errorBox();
  const ranges = choiceOf("Range", RANGES, () => range, (key) => {
    range = key;
    ask();
  });
  const kinds = choiceOf("Whose", BY, () => by, (key) => {
    by = key;
    remember();
    draw();
  });
  const facts = h("dl", { class: "figures" });
  const used = new Bars({ title: "GPU hours", words: (ms) => `${hours(ms)} h` });
  const ended = new Bars({ title: "Jobs that ended", words: (value) => value.toLocaleString("en") });
  const waited = new Bars({ title: "Waiting times", words: (ms) => duration(ms) });
  const rows = h("tbody", {});
  const empty = h("p", { class: "empty card", hidden: true }, "Nothing ran in this time. ",
    h("a", { href: "#/submit" }, "Submit a job"));
  const parts = h("div", { class: "stack", hidden: true },
    h("section", { class: "card pad" }, h("div", { class: "bar" }, h("h2", {}, "GPU hours"), kinds), used.element),
    h("div", { class: "two" },
      h("section", { class: "card pad" }, h("h2", {}, "How jobs ended"), ended.element),
      h("section", { class: "card pad" }, h("h2", {}, "How long jobs waited"),
        h("p", { class: "dim" }, "From being queued to the first start: the median, and what one in ten exceeds."),
        waited.element)),
    h("section", { class: "card pad" }, h("h2", {}, "Who used most"),
      h("div", { class: "scroll-x" }, h("table", { class: "plain" },
        h("thead", {}, h("tr", {}, ...["Name", "GPU hours", "Share"].map((word) => h("th", {}, word)))), rows))));
  const element = h("div", { class: "stack usage" },
    h("div", { class: "bar" }, h("h1", {}, "Usage"), ranges, h("span", { class: "grow" }),
      h("a", { class: "button", href: "#/failures" }, "What failed")),
    trouble.element, facts, empty, parts);
  let data = null;
  let edges = [];
  let closed = false;

  function remember() {
    keepInAddress({ range: range === "7d" ? "" : range, by: by === "groups" ? "" : by });
  }

  async function ask() {
    remember();
    const wanted = edgesOf(range, serverNow());
    const asked = range;
    try {
      const answer = await get("/api/usage", { edges_ms: wanted });
      if (closed || asked !== range) return;
      trouble.clear();
      [data, edges] = [answer, wanted];
      draw();
    } catch (error) {
      if (!closed && error.status) trouble.show(error);
    }
  }

  function draw() {
    if (!data) return;
    const busy = sum(data.busy_ms);
    const capacity = capacityOf(edges, data.gpus, data.now_ms);
    const over = data.ended.flatMap(Object.entries).reduce((all, [state, many]) =>
      all.set(state, (all.get(state) ?? 0) + many), new Map());
    const finished = sum([...over.values()]);
    const failed = (over.get("failed") ?? 0) + (over.get("lost") ?? 0);
    const nothing = busy === 0 && finished === 0;
    setHidden(empty, !nothing);
    setHidden(parts, nothing);
    facts.replaceChildren(...[
      ["GPU hours", hours(busy)],
      [`of ${count(data.gpus, "GPU")} in use`, percent(busy, sum(capacity)) || "none"],
      ["attempts ended", finished.toLocaleString("en")],
      ["of them failed", percent(failed, finished) || "none"],
    ].flatMap(([name, value]) => [h("div", {}, h("dd", { class: "num" }, value), h("dt", { class: "dim" }, name))]));
    if (nothing) return;
    const names = edges.slice(0, -1).map(range === "24h" ? hourMinute : dayText);
    const other = by === "groups" ? "other jobs" : "others";
    const limit = data.gpus ? { name: `all of ${count(data.gpus, "GPU")}`, values: capacity } : null;
    used.show(layersOf(data[by], MOST_LAYERS).map(({ name, values }, place) =>
      ({ name: name ?? other, look: name === null ? "tone-rest" : `tone-${place}`, values })),
    { names, limit, unit: 3_600_000 });
    ended.show(STATES.concat("requeued").filter((state) => over.has(state)).map((state) =>
      ({ name: state, state, values: data.ended.map((one) => one[state] ?? 0) })), { names });
    waited.show([{ name: "median", look: "tone-0", values: data.waited_ms.map((one) => one ?? 0) },
      { name: "one in ten longer", look: "tone-rest",
        values: data.waited_long_ms.map((one, place) => Math.max(0, (one ?? 0) - (data.waited_ms[place] ?? 0))) }],
    { names, unit: unitOf(Math.max(...data.waited_long_ms)) });
    rows.replaceChildren(...data[by].map(({ name, gpu_ms }) => h("tr", {},
      h("td", {}, whoseLink(name)), h("td", { class: "num" }, hours(sum(gpu_ms))),
      h("td", { class: "num" }, percent(sum(gpu_ms), busy)))));
  }

  function whoseLink(name) {
    if (!name) return h("span", { class: "dim" }, by === "groups" ? "jobs without a group" : "others");
    return by === "groups" ? h("a", { href: `#/?group=${encodeURIComponent(name)}` }, h("bdi", {}, name))
      : h("bdi", {}, name);
  }

  let timer = null;
  return {
    element,
    title: "Usage",
    open() {
      ask();
      timer = setInterval(() => !document.hidden && ask(), AGAIN_MS);
    },
    close() {
      closed = true;
      clearInterval(timer);
    },
  };
}

// Seconds, minutes or hours, so that an axis has few digits.
function unitOf(ms) {
  return [3_600_000, 60_000, 1000].find((unit) => ms >= 2 * unit) ?? 1000;
}

function sum(values) {
  return values.reduce((all, one) => all + one, 0);
}

function choiceOf(title, keys, chosen, choose) {
  const element = h("div", { class: "choice", role: "group", "aria-label": title }, ...keys.map(([key, words]) =>
    h("button", { type: "button", data: { key }, "aria-pressed": String(key === chosen()), onclick: () => {
      choose(key);
      for (const button of element.children) button.setAttribute("aria-pressed", String(button.dataset.key === key));
    } }, words)));
  return element;
}
