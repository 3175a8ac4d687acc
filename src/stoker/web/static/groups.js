// Groups: how far each is, how many of its jobs may run, whether it is paused, and its share of the GPUs.

import { get, post } from "./api.js";
import { ask, errorBox, h, keyed, setHidden, setText } from "./dom.js";
import { serverNow } from "./feed.js";
import { count } from "./format.js";
import { countsText, progress } from "./progress.js";
import { edgesOf, hours, percent } from "./stretches.js";

const USAGE_EVERY_MS = 60_000;
const UNFINISHED = ["running", "stopping", "submitted", "waiting", "held"];

export function groupsView() {
  const trouble = errorBox();
  const done = h("p", { class: "done", role: "status" });
  const body = h("tbody", {});
  const heads = ["Group", "Jobs", "How far", "Running", "At a time", "GPU hours, 7 days", "Share", ""];
  const table = h("section", { class: "card pad scroll-x", hidden: true, tabIndex: 0, "aria-label": "Groups" },
    h("table", { class: "plain groups" },
      h("thead", {}, h("tr", {}, ...heads.map((word) => h(word ? "th" : "td", {}, word)))), body));
  const empty = h("p", { class: "empty card", hidden: true }, "No job is in a group. ",
    h("a", { href: "#/submit" }, "Submit one"), " with the option Group, or a ",
    h("a", { href: "#/submit/sweep" }, "sweep"), ".");
  const element = h("div", { class: "stack" }, h("h1", {}, "Groups"), trouble.element, done, empty, table);
  let usage = new Map(); // GPU time by group
  let total = 0;
  let usedAt = -Infinity;
  let closed = false;
  let timer = null;

  async function refresh() {
    timer = null;
    try {
      const { groups } = await get("/api/groups");
      if (closed) return;
      draw(groups.reverse());
      if (performance.now() - usedAt > USAGE_EVERY_MS) await askUsage(groups);
    } catch (error) {
      if (!closed && error.status) trouble.show(error);
    }
  }

  async function askUsage(groups) {
    usedAt = performance.now();
    const answer = await get("/api/usage", { edges_ms: edgesOf("7d", serverNow()) });
    if (closed) return;
    const sum = (values) => values.reduce((all, one) => all + one, 0);
    usage = new Map(answer.groups.map(({ name, gpu_ms }) => [name, sum(gpu_ms)]));
    total = sum(answer.busy_ms);
    draw(groups);
  }

  function draw(groups) {
    setHidden(empty, groups.length > 0);
    setHidden(table, groups.length === 0);
    keyed(body, groups, (one) => one.group, row, (element, one) => element.show(one));
  }

  async function order(words, path, fields, sure = null) {
    trouble.clear();
    setText(done, "");
    try {
      if (sure && !(await sure())) return;
      const answer = await post(path, fields);
      setText(done, answer.ids ? `${words}: ${count(answer.ids.length, "job")}.` : `${words}.`);
    } catch (error) {
      trouble.show(error);
    }
    refresh();
  }

  function row(first) {
    const name = first.group;
    const bar = progress();
    const limit = h("input", { type: "number", min: 1, class: "limit write", placeholder: "any",
      "aria-label": `How many of ${name} may run at a time`, onchange: () => setLimit() });
    const button = (words, act, more = "") =>
      h("button", { type: "button", class: `small ${more}`, onclick: act }, words);
    const pause = button("Pause", () => order(element.one.paused ? "Resumed" : "Paused",
      `/api/queue/${element.one.paused ? "resume" : "pause"}`, { group: name }));
    const retry = button("Retry failed", () =>
      order("Queued again", "/api/jobs/retry", { group: name, states: ["failed", "lost"] }));
    const cancel = button("Cancel", () => order("Cancelled", "/api/jobs/cancel", { group: name }, () =>
      ask(`Cancel all unfinished jobs of ${name}?`, { yes: "Cancel them", danger: true,
        details: `${countsText(element.one.counts)}. What runs gets SIGTERM, and SIGKILL after its grace time.` })),
    "danger");
    const paused = h("span", { class: "badge warn" }, "paused");
    const cells = heads.map((word) => h("td", { class: "num", data: { head: word } }));
    cells[0].append(h("a", { href: `#/?group=${encodeURIComponent(name)}` }, h("bdi", {}, name)), " ", paused);
    cells[2].append(bar.element);
    cells[4].append(limit);
    cells[7].append(h("div", { class: "buttons write" }, pause, retry, cancel));
    const element = h("tr", {}, ...cells);

    function setLimit() {
      const most = limit.value ? Number(limit.value) : null;
      order(most ? `At most ${count(most, "job")} of ${name} at a time` : `${name} has no limit`,
        "/api/queue/limit", { group: name, max_running: most });
    }

    element.show = (one) => {
      element.one = one;
      const { counts } = one;
      const jobs = Object.values(counts).reduce((all, many) => all + many, 0);
      const left = UNFINISHED.some((state) => counts[state]);
      setText(cells[1], jobs.toLocaleString("en"));
      bar.show(counts, jobs);
      bar.element.title = countsText(counts);
      setText(cells[3], String((counts.running ?? 0) + (counts.stopping ?? 0)));
      if (document.activeElement !== limit) limit.value = one.max_running ?? "";
      const used = usage.get(name) ?? 0;
      setText(cells[5], used ? hours(used) : "");
      setText(cells[6], used ? percent(used, total) : "");
      setHidden(paused, !one.paused);
      setText(pause, one.paused ? "Resume" : "Pause");
      setHidden(retry, !counts.failed && !counts.lost);
      setHidden(cancel, !left);
    };
    return element;
  }

  return {
    element,
    title: "Groups",
    open: refresh,
    close() {
      closed = true;
      clearTimeout(timer);
    },
    hear(change) {
      if ((change.many || change.changed.length) && timer === null) timer = setTimeout(refresh, 1000);
    },
  };
}
