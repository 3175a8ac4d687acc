// One card per GPU: what it is, how busy, whose memory, and who is on it. A small card has two lines, and opens when
// its name is pressed.

import { post } from "./api.js";
import { ask, errorBox, h, keyed, setData, setHidden, setText } from "./dom.js";
import { duration, gib, ran, stateShown } from "./format.js";
import { Sparkline } from "./plot.js";

const SHOWN_JOBS = 4;
const SHOWN_OTHERS = 3;
const MANY = 4; // beyond which cards are small unless the user says otherwise
const NARROW_PX = 760;

// "small" or "large": what the user said, else what leaves room for the list.
export function cardSize(said, gpus, width) {
  if (said === "small" || said === "large") return said;
  return gpus > (width < NARROW_PX ? 1 : MANY) ? "small" : "large";
}

export function gpuCard() {
  const title = h("button", { type: "button", class: "title", onclick: () => turn() });
  const name = h("span", { class: "dim cut model" });
  const badges = h("div", { class: "badges" });
  const use = h("b", { class: "num" });
  const heat = h("span", { class: "heat dim num" });
  const line = new Sparkline();
  const bar = memoryBar();
  const memory = h("div", { class: "memory dim num cut" });
  const jobs = h("ul", { class: "jobs" });
  const others = h("ul", { class: "jobs strangers" });
  const idle = h("li", { class: "dim" }, "free");
  const more = h("div", { class: "dim more" });
  const trouble = errorBox();
  const buttons = h("div", { class: "buttons write" });
  const drain = h("button", { type: "button", class: "small quiet" });
  const remove = h("button", { type: "button", class: "small quiet danger" }, "Remove");
  buttons.append(drain, remove);
  const card = h("article", { class: "card gpu" },
    h("header", {}, h("h2", {}, title), name, badges),
    h("div", { class: "use" }, use, heat),
    line.element, bar.element, memory,
    jobs, others, more, trouble.element, buttons);

  let gpu = null;
  let opened = false;

  function turn() {
    opened = !opened;
    card.redraw();
  }

  async function order(name, sure) {
    trouble.clear();
    try {
      if (sure && !(await sure())) return;
      await post(`/api/gpus/${name}`, { gpus: [gpu.id] });
    } catch (error) {
      trouble.show(error);
    }
  }
  drain.addEventListener("click", () => order(gpu.state === "drained" ? "resume" : "drain"));
  remove.addEventListener("click", () =>
    order("remove", () => ask(`Take GPU ${label(gpu)} away?`,
      { yes: "Remove", danger: true, details: "What runs on it ends by itself." })));

  card.show = (given, byId, history, at, isSmall) => {
    card.redraw = () => card.show(given, byId, history, at, isSmall);
    gpu = given;
    const small = isSmall && !opened;
    setData(card, "size", small ? "small" : "large");
    title.disabled = !isSmall;
    if (isSmall) title.setAttribute("aria-expanded", String(opened));
    else title.removeAttribute("aria-expanded");
    setText(title, `GPU ${label(gpu)}`);
    card.setAttribute("aria-label", `GPU ${label(gpu)}`);
    setText(name, gpu.name || "");
    setData(card, "state", gpu.state);
    keyed(badges, badgesOf(gpu), (badge) => badge.text,
      (badge) => h("span", { class: `badge ${badge.kind}`, title: badge.title || "" }, badge.text), () => {});
    const measured = typeof gpu.utilisation_percent === "number";
    setText(use, measured ? `${gpu.utilisation_percent} %` : gpu.jobs.length ? "in use" : "idle");
    setText(heat, heatOf(gpu));
    setHidden(line.element, !measured && !gpu.measured_at_ms); // A declared GPU never has a line.
    line.show(history, gpu.memory_mib);
    bar.show(gpu);
    setText(memory, small ? memoryInShort(gpu) : memoryText(gpu));
    const running = gpu.jobs.slice(0, small ? 1 : SHOWN_JOBS);
    const rest = gpu.jobs.length - running.length;
    keyed(jobs, running, (id) => id, jobLine, (item, id) => item.show(id, byId.get(id), at));
    const strangers = gpu.foreign || [];
    const seen = strangers.slice(0, small ? (gpu.jobs.length ? 0 : 1) : SHOWN_OTHERS);
    keyed(others, seen, (one) => one.pid, strangerLine, (item, one) => item.show(one));
    setHidden(others, seen.length === 0);
    const isEmpty = !gpu.jobs.length && !strangers.length;
    if (isEmpty && !idle.isConnected) jobs.append(idle);
    if (!isEmpty) idle.remove();
    setHidden(jobs, !isEmpty && !running.length);
    const why = { drained: "drained: takes nothing new", removing: "going away", foreign: "used by others" };
    setText(idle, gpu.fault || why[gpu.state] || "free");
    const hidden = rest + strangers.length - seen.length;
    setText(more, small ? `+${hidden}` : `and ${hidden} more`);
    setHidden(more, hidden <= 0);
    setText(drain, gpu.state === "drained" ? "Resume" : "Drain"); // Also what is well again.
    setHidden(drain, gpu.state === "removing");
    setHidden(remove, gpu.state === "removing");
  };
  return card;
}

export function label(gpu) {
  return gpu.id;
}

function badgesOf(gpu) {
  const found = [];
  if (gpu.fault) found.push({ text: "lost", kind: "bad", title: gpu.fault });
  if (gpu.state === "drained" && !gpu.fault) found.push({ text: "drained", kind: "warn" });
  if (gpu.state === "removing") found.push({ text: "removing", kind: "warn" });
  if (gpu.foreign?.length) found.push({ text: "others on it", kind: "warn", title: gpu.foreign.map(who).join("\n") });
  if (gpu.stale && !gpu.fault) found.push({ text: "old reading", kind: "warn",
    title: "The driver has not answered lately" });
  return found;
}

// A process that Stoker did not start.
function who(one) {
  const used = one.used_mib === null || one.used_mib === undefined ? "?" : gib(one.used_mib);
  return `${one.user || "?"}: ${one.command || one.pid} (${used})`;
}

function strangerLine() {
  const words = h("bdi", { class: "cut" });
  const memory = h("span", { class: "num time" });
  const item = h("li", { class: "stranger" }, words, memory);
  item.show = (one) => {
    setText(words, `${one.user || "?"}: ${one.command || `process ${one.pid}`}`);
    setText(memory, typeof one.used_mib === "number" ? gib(one.used_mib) : "");
    item.title = who(one);
  };
  return item;
}

function heatOf(gpu) {
  const parts = [];
  if (typeof gpu.temperature_c === "number") parts.push(`${gpu.temperature_c} °C`);
  if (typeof gpu.power_w === "number") {
    const most = typeof gpu.power_limit_w === "number" ? ` of ${Math.round(gpu.power_limit_w)}` : "";
    parts.push(`${Math.round(gpu.power_w)}${most} W`);
  }
  return parts.join(" · ") || (typeof gpu.utilisation_percent === "number" ? "" : "not measured");
}

function memoryText(gpu) {
  const used = [];
  if (typeof gpu.ours_mib === "number") used.push(`${gib(gpu.ours_mib)} ours`);
  if (gpu.others_mib > 0) used.push(`${gib(gpu.others_mib)} others`);
  const whole = gpu.memory_mib ? gib(gpu.memory_mib) : "";
  const parts = used.length ? [used.join(", ") + (whole ? ` of ${whole}` : "")] : whole ? [whole] : [];
  if (gpu.share_used >= 1 && gpu.jobs.length === 1 && gpu.state === "busy") parts.push("taken whole");
  else if (gpu.reserved_mib > 0) parts.push(`${gib(gpu.reserved_mib)} reserved`);
  else if (gpu.share_used > 0) parts.push(`${Math.round(gpu.share_used * 100)} % shared out`);
  return parts.join(" · ") || "memory not known";
}

// Used, or else reserved, of all: "17 / 24 GiB".
export function memoryInShort(gpu) {
  const measured = typeof gpu.ours_mib === "number" || gpu.others_mib > 0;
  const taken = measured ? (gpu.ours_mib || 0) + (gpu.others_mib || 0) : gpu.reserved_mib || 0;
  if (!gpu.memory_mib) return "";
  return `${(taken / 1024).toFixed(taken < 10_240 ? 1 : 0).replace(/\.0$/, "")} / ${gib(gpu.memory_mib)}`;
}

// Ours, others' and free memory side by side; what is reserved is outlined over it.
function memoryBar() {
  const ours = h("span", { class: "ours" });
  const others = h("span", { class: "others" });
  const reserved = h("i", { class: "reserved" });
  const element = h("div", { class: "membar", role: "img" }, ours, others, reserved);
  return {
    element,
    show(gpu) {
      const whole = gpu.memory_mib || 0;
      const part = (mib) => (whole && typeof mib === "number" ? Math.max(0, Math.min(100, (100 * mib) / whole)) : 0);
      const mine = part(gpu.ours_mib);
      const theirs = Math.min(part(gpu.others_mib), 100 - mine);
      const kept = whole && gpu.reserved_mib > 0 ? part(gpu.reserved_mib) : Math.min(100, 100 * (gpu.share_used || 0));
      setWidth(ours, mine);
      setWidth(others, theirs);
      setWidth(reserved, kept);
      setHidden(reserved, kept <= 0);
      element.setAttribute("aria-label", memoryText(gpu));
    },
  };
}

function setWidth(element, percent) {
  const width = `${percent.toFixed(2)}%`;
  if (element.style.width !== width) element.style.width = width;
}

function jobLine() {
  const link = h("a", { class: "cut" });
  const owner = h("span", { class: "dim cut owner" });
  const time = h("span", { class: "num time" });
  const item = h("li", {}, link, owner, time);
  item.show = (id, job, at) => {
    if (link.getAttribute("href") !== `#/job/${id}`) link.setAttribute("href", `#/job/${id}`);
    setText(link, job ? `${id} ${job.name || job.command}` : `${id}`);
    link.title = job ? job.command : "";
    setText(owner, job ? job.user : "");
    setText(time, job?.started_at_ms ? duration(ran(job, at)) : "");
    setData(item, "state", job ? stateShown(job) : "running");
  };
  return item;
}
