// Submit: one job, many lines, a sweep; and the GPUs.

import { get, post } from "./api.js";
import { ask, clear, errorBox, h, keyed, setHidden, setText } from "./dom.js";
import { now } from "./feed.js";
import { count, durationMs, gib, memoryMib, valueText } from "./format.js";
import { label } from "./gpu.js";

const TABS = [["job", "One job"], ["lines", "Many lines"], ["sweep", "Sweep"], ["gpus", "GPUs"]];
// What was typed is there when one comes back.
const kept = new Map();

export function submitView(tab, query, me) {
  const body = h("div", {});
  const tabs = h("div", { class: "choice", role: "tablist" }, ...TABS.map(([key, words]) =>
    h("button", { type: "button", role: "tab", "aria-selected": String(key === tab),
      onclick: () => { location.hash = `#/submit/${key}`; } }, words)));
  const element = h("div", { class: "stack submit" }, h("div", { class: "bar" }, h("h1", {}, "Submit"), tabs),
    me.read_only ? h("p", { class: "notice" }, "This browser may only look.") : null, body);
  const made = { job: jobForm, lines: linesForm, sweep: sweepForm, gpus: gpuForm }[tab]?.(query, me);
  if (made) body.append(made.element);
  else body.append(h("p", { class: "empty" }, "There is nothing here."));
  return { element, title: "Submit", open: () => made?.open?.(), close: () => made?.close?.(),
    hear: (change) => made?.hear?.(change) };
}

// ---- fields

function field(words, input, hint = "") {
  const trouble = h("span", { class: "bad", role: "alert" });
  return h("label", { class: "field" }, h("span", {}, words), input, hint ? h("small", { class: "dim" }, hint) : null,
    trouble);
}

function remembered(form, name, attributes, tag = "input") {
  const key = `${form}.${name}`;
  const input = h(tag, { name, autocomplete: "off", spellcheck: false, ...attributes });
  if (kept.has(key)) input.value = kept.get(key);
  input.addEventListener("input", () => kept.set(key, input.value));
  return input;
}

const PLACES = [["", "as the settings say"], ["local", "on this machine"], ["slurm", "on the Slurm cluster"]];

function place(form) {
  const key = `${form}.executor`;
  const choice = h("select", { name: "executor" }, ...PLACES.map(([value, words]) => h("option", { value }, words)));
  choice.value = kept.get(key) ?? "";
  choice.addEventListener("input", () => kept.set(key, choice.value));
  return choice;
}

class Wrong extends Error {
  constructor(message, hint) {
    super(message);
    this.hint = hint;
  }
}

function number(text, words) {
  if (!/^-?[0-9]+(\.[0-9]+)?$/.test(text)) throw new Wrong(`${words}: “${text}” is no number`, "Write e.g. 2");
  return Number(text);
}

// The fields that one job, many lines and a sweep have in common.
function needFields(form) {
  const inputs = {
    gpus: remembered(form, "gpus", { placeholder: "1", inputMode: "decimal" }),
    mem: remembered(form, "mem", { placeholder: "whole GPU" }),
    cpus: remembered(form, "cpus", { placeholder: "", inputMode: "numeric" }),
    on: remembered(form, "on", { placeholder: "any" }),
    priority: remembered(form, "priority", { placeholder: "0" }),
    limit: remembered(form, "limit", { placeholder: "none" }),
    retries: remembered(form, "retries", { placeholder: "0", inputMode: "numeric" }),
    executor: place(form),
  };
  const element = h("fieldset", { class: "fields" }, h("legend", {}, "What it needs"),
    field("GPUs", inputs.gpus, "2, a part such as 0.5, or 0"),
    field("GPU memory", inputs.mem, "10G on each, or auto: as seen"),
    field("CPU slots", inputs.cpus),
    field("Only on GPUs", inputs.on, "0,1"),
    field("Priority", inputs.priority, "lower goes first"),
    field("Time limit", inputs.limit, "2h"),
    field("Retries", inputs.retries),
    field("Runs", inputs.executor));
  const read = () => {
    const job = {};
    const gpus = inputs.gpus.value.trim();
    if (gpus) {
      const value = number(gpus, "GPUs");
      if (Number.isInteger(value)) job.gpus = value;
      else job.share = value;
    }
    const mem = inputs.mem.value.trim();
    if (mem === "auto") job.mem = "auto";
    else if (mem) {
      job.mem_mib = memoryMib(mem);
      if (job.mem_mib === null) throw new Wrong(`GPU memory: “${mem}” can't be understood`, "Write e.g. 10G or 512M");
    }
    if (inputs.cpus.value.trim()) job.cpus = number(inputs.cpus.value.trim(), "CPU slots");
    if (inputs.on.value.trim()) job.on = inputs.on.value.split(/[\s,]+/).filter(Boolean);
    if (inputs.priority.value.trim()) job.priority = number(inputs.priority.value.trim(), "Priority");
    if (inputs.retries.value.trim()) job.retries = number(inputs.retries.value.trim(), "Retries");
    if (inputs.executor.value) job.executor = inputs.executor.value;
    const limit = inputs.limit.value.trim();
    if (limit) {
      job.time_limit_ms = durationMs(limit);
      if (job.time_limit_ms === null) throw new Wrong(`Time limit: “${limit}” can't be understood`,
        "Write e.g. 90s, 30m or 2h");
    }
    return job;
  };
  return { element, inputs, read };
}

function submitButton(words) {
  return h("button", { type: "submit", class: "main write" }, words);
}

// A form that tells in its own place what went wrong, and what came of it.
function formOf(parts, button, give) {
  const trouble = errorBox();
  const done = h("p", { class: "done", role: "status", hidden: true });
  const form = h("form", { class: "card pad stack form", novalidate: true, onsubmit: async (event) => {
    event.preventDefault();
    trouble.clear();
    setHidden(done, true);
    button.disabled = true;
    try {
      done.replaceChildren(...(await give()));
      setHidden(done, false);
    } catch (error) {
      trouble.show(error);
    } finally {
      button.disabled = false;
    }
  } }, ...parts, trouble.element, done, h("div", { class: "buttons" }, button));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return form;
}

function queued(ids) {
  if (ids.length === 1) return ["Queued as ", h("a", { href: `#/job/${ids[0]}` }, `job ${ids[0]}`), "."];
  return [`${count(ids.length, "job")} queued: `, h("a", { href: `#/job/${ids[0]}` }, String(ids[0])), " to ",
    h("a", { href: `#/job/${ids[ids.length - 1]}` }, String(ids[ids.length - 1])), "."];
}

// ---- one job

function jobForm(query, me) {
  const clone = query.get("clone");
  const form = clone ? `clone ${clone}` : "job";
  const inputs = {
    command: remembered(form, "command", { rows: 3, placeholder: "python train.py --lr 0.1", required: true },
      "textarea"),
    name: remembered(form, "name", { placeholder: "none" }),
    cwd: remembered(form, "cwd", { placeholder: me.directory }),
    out: remembered(form, "out", { placeholder: "the job's own log" }),
    group: remembered(form, "group", { placeholder: "none" }),
    after: remembered(form, "after", { placeholder: "ids" }),
  };
  const held = h("input", { type: "checkbox" });
  const needs = needFields(form);
  const button = submitButton("Queue the job");
  const note = h("p", { class: "dim", hidden: !clone }, clone ? `A copy of job ${clone}, with its environment.` : "");
  let original = null;

  const element = formOf([
    note,
    field("Command", inputs.command, "as you would type it in a shell"),
    h("div", { class: "fields" },
      field("Name", inputs.name),
      field("Directory", inputs.cwd, "a whole path, or ~/…"),
      field("Output file", inputs.out),
      field("Group", inputs.group),
      field("After jobs", inputs.after, "which must succeed first"),
      h("label", { class: "field check" }, h("span", {}, "Held"), h("span", {}, held, " do not start yet"))),
    needs.element,
  ], button, async () => {
    const command = inputs.command.value.trim();
    if (!command) throw new Wrong("There is no command", "Write one, e.g. python train.py");
    const job = { ...needs.read() };
    if (original && command === original.command && original.argv.length) job.argv = original.argv;
    else job.shell = command;
    for (const name of ["name", "out", "group"]) if (inputs[name].value.trim()) job[name] = inputs[name].value.trim();
    if (inputs.after.value.trim()) job.after = inputs.after.value.split(/[\s,]+/).filter(Boolean);
    if (held.checked) job.hold = true;
    const order = { jobs: [job], cwd: inputs.cwd.value.trim() || null };
    if (original) order.environment_of = original.id;
    const { ids } = await post("/api/jobs", order);
    return queued(ids);
  });

  async function open() {
    if (!clone) {
      inputs.command.focus();
      return;
    }
    try {
      const { job } = await get(`/api/jobs/${Number(clone)}`);
      original = job;
      const fill = (input, value) => {
        if (!input.value && value) input.value = value;
      };
      fill(inputs.command, job.command);
      fill(inputs.name, job.name);
      fill(inputs.cwd, job.cwd);
      fill(inputs.group, job.point ? "" : job.group);
      fill(needs.inputs.gpus, String(job.need.share || job.need.gpus));
      fill(needs.inputs.mem, job.need.mem_mib ? `${job.need.mem_mib}M` : job.need.mem || "");
      fill(needs.inputs.cpus, job.need.cpus ? String(job.need.cpus) : "");
      fill(needs.inputs.on, (job.need.on || []).join(","));
      fill(needs.inputs.priority, job.priority ? String(job.priority) : "");
      fill(needs.inputs.limit, job.time_limit_ms ? `${job.time_limit_ms / 1000}s` : "");
      fill(needs.inputs.retries, job.retries ? String(job.retries) : "");
      fill(needs.inputs.executor, job.executor);
    } catch (error) {
      setText(note, `${error.message}. ${error.hint}`);
    }
  }
  return { element, open };
}

// ---- many lines

function linesForm(query, me) {
  const lines = remembered("lines", "lines",
    { rows: 10, placeholder: "python train.py --seed 1\npython train.py --seed 2\n# a line like this is left out" },
    "textarea");
  const cwd = remembered("lines", "cwd", { placeholder: me.directory });
  const group = remembered("lines", "group", { placeholder: "none" });
  const needs = needFields("lines");
  const button = submitButton("Queue the lines");
  const tally = h("p", { class: "dim num" });
  const commands = () => lines.value.split("\n").map((line) => line.trim())
    .filter((line) => line && !line.startsWith("#"));
  const tell = () => setText(tally, commands().length ? count(commands().length, "job") : "");
  lines.addEventListener("input", tell);
  tell();
  const element = formOf([
    field("Commands, one a line", lines), tally,
    h("div", { class: "fields" }, field("Directory", cwd, "a whole path, or ~/…"), field("Group", group)),
    needs.element,
  ], button, async () => {
    const found = commands();
    if (!found.length) throw new Wrong("There is no command", "Write one a line");
    const base = needs.read();
    if (group.value.trim()) base.group = group.value.trim();
    const { ids } = await post("/api/jobs",
      { jobs: found.map((shell) => ({ ...base, shell })), cwd: cwd.value.trim() || null });
    return queued(ids);
  });
  return { element, open: () => lines.focus() };
}

// ---- a sweep

function sweepForm(query, me) {
  const space = remembered("sweep", "space", { rows: 4, placeholder: "lr=0.1,0.01,0.001\nbs=range(16,65,16)" },
    "textarea");
  const command = remembered("sweep", "command", { rows: 2, placeholder: "python train.py --lr {lr} --bs {bs}" },
    "textarea");
  const inputs = {
    name: remembered("sweep", "name", { placeholder: "by its command" }),
    cwd: remembered("sweep", "cwd", { placeholder: me.directory }),
    samples: remembered("sweep", "samples", { placeholder: "the whole grid", inputMode: "numeric" }),
    where: remembered("sweep", "where", { placeholder: "lr * bs < 4" }),
    most: remembered("sweep", "most", { placeholder: "no limit", inputMode: "numeric" }),
  };
  const rerun = h("select", {}, h("option", { value: "" }, "new and failed points"),
    h("option", { value: "failed" }, "only failed points"), h("option", { value: "all" }, "all points"));
  const needs = needFields("sweep");
  const button = submitButton("Queue the sweep");
  const preview = h("section", { class: "card pad preview", "aria-label": "Preview", "aria-live": "polite" },
    h("h2", {}, "Preview"));
  const previewCount = h("p", { class: "num" }, "Write parameters and a command.");
  const previewTrouble = errorBox();
  const previewHead = h("tr", {});
  const previewBody = h("tbody", {});
  preview.append(previewCount, previewTrouble.element,
    h("div", { class: "scroll-x" }, h("table", { class: "plain" }, h("thead", {}, previewHead), previewBody)));

  const order = () => {
    const found = { space: space.value.split("\n").map((line) => line.trim()).filter(Boolean),
      command: command.value.trim() };
    if (!found.space.length) throw new Wrong("There is no parameter", "Write e.g. lr=0.1,0.01");
    if (!found.command) throw new Wrong("There is no command", "Write one, e.g. python train.py");
    if (inputs.name.value.trim()) found.name = inputs.name.value.trim();
    if (inputs.cwd.value.trim()) found.cwd = inputs.cwd.value.trim();
    if (inputs.samples.value.trim()) found.samples = number(inputs.samples.value.trim(), "Samples");
    if (inputs.where.value.trim()) found.where = [inputs.where.value.trim()];
    if (inputs.most.value.trim()) found.max_running = number(inputs.most.value.trim(), "At a time");
    if (rerun.value) found.rerun = rerun.value;
    const job = needs.read();
    if (Object.keys(job).length) found.job = job;
    return found;
  };

  let typing = null;
  let asked = 0;
  async function look() {
    if (!space.value.trim() || !command.value.trim()) return;
    const mine = (asked += 1);
    try {
      const answer = await post("/api/sweep/preview", order());
      if (mine !== asked) return;
      previewTrouble.clear();
      const shown = answer.points.length;
      const part = shown < answer.count ? `, the first ${shown} of them` : "";
      setText(previewCount, `${count(answer.count, "point")}${part}`);
      const names = answer.points.length ? Object.keys(answer.points[0].params) : [];
      previewHead.replaceChildren(...names.map((name) => h("th", {}, h("bdi", {}, name))), h("th", {}, "Command"));
      clear(previewBody);
      previewBody.append(...answer.points.map((point) => h("tr", {},
        ...names.map((name) => h("td", { class: "mono" },
          h("bdi", {}, name in point.params ? valueText(point.params[name]) : ""))),
        h("td", { class: "mono dim" }, h("bdi", {}, point.command)))));
    } catch (error) {
      if (mine !== asked) return;
      previewTrouble.show(error);
      setText(previewCount, "");
      previewHead.replaceChildren();
      clear(previewBody);
    }
  }
  const soon = () => {
    clearTimeout(typing);
    typing = setTimeout(look, 250);
  };

  const form = formOf([
    field("Parameters, one a line", space, "lists, range(…), uniform(…), loguniform(…), zip(…)"),
    field("Command", command, "{name} stands for a value; parameters without a place are appended"),
    h("div", { class: "fields" },
      field("Name", inputs.name), field("Directory", inputs.cwd, "a whole path, or ~/…"),
      field("Samples", inputs.samples, "so many points at random"),
      field("Only where", inputs.where), field("At a time", inputs.most, "at most so many run"),
      field("Queue", rerun)),
    needs.element,
  ], button, async () => {
    const answer = await post("/api/sweep", order());
    const parts = [`${answer.ids.length} queued`];
    if (answer.succeeded_before) parts.push(`${answer.succeeded_before} succeeded before`);
    if (answer.unfinished) parts.push(`${answer.unfinished} queued or running already`);
    if (answer.not_tried) parts.push(`${answer.not_tried} not tried yet`);
    return [`${count(answer.count, "point")}: ${parts.join(", ")}. `,
      h("a", { href: `#/sweep/${encodeURIComponent(answer.sweep)}` }, "To the sweep")];
  });
  form.addEventListener("input", soon);
  return {
    element: h("div", { class: "two" }, form, preview),
    open: () => {
      space.focus();
      look();
    },
    close: () => clearTimeout(typing),
  };
}

// ---- GPUs

function gpuForm() {
  const ids = h("input", { name: "gpus", placeholder: "4, 4-7 or 4:24G", autocomplete: "off" });
  const button = submitButton("Add");
  const added = field("GPUs to add", ids, "by their index, with their memory if it matters");
  const form = formOf([added], button, async () => {
    const words = ids.value.split(/[\s,]+/).filter(Boolean);
    if (!words.length) throw new Wrong("No GPU was named", "Write e.g. 4 or 4:24G");
    const { gpus } = await post("/api/gpus/add", { gpus: words });
    ids.value = "";
    return [`Added: ${gpus.join(", ")}.`];
  });
  const trouble = errorBox();
  const body = h("tbody", {});
  const order = async (name, gpu) => {
    trouble.clear();
    try {
      if (name === "remove" && !(await ask(`Take GPU ${label(gpu)} away?`,
        { yes: "Remove", danger: true, details: "What runs on it ends by itself." }))) return;
      await post(`/api/gpus/${name}`, { gpus: [gpu.id] });
    } catch (error) {
      trouble.show(error);
    }
  };
  const draw = () => keyed(body, now.gpus, (gpu) => gpu.id, () => {
    const row = h("tr", {}, h("td", {}), h("td", { class: "dim" }), h("td", { class: "num" }), h("td", {}),
      h("td", { class: "num" }),
      h("td", { class: "buttons write" },
        h("button", { type: "button", class: "small",
          onclick: () => order(row.gpu.state === "drained" ? "resume" : "drain", row.gpu) }),
        h("button", { type: "button", class: "small danger", onclick: () => order("remove", row.gpu) }, "Remove")));
    return row;
  }, (row, gpu) => {
    row.gpu = gpu;
    const cells = row.children;
    setText(cells[0], `GPU ${label(gpu)}`);
    setText(cells[1], gpu.name || "declared");
    setText(cells[2], gpu.memory_mib ? gib(gpu.memory_mib) : "not known");
    setText(cells[3], gpu.fault || gpu.state);
    setText(cells[4], gpu.jobs.length ? count(gpu.jobs.length, "job") : "");
    setText(cells[5].children[0], gpu.state === "drained" ? "Resume" : "Drain");
  });
  const table = h("section", { class: "card pad" }, h("h2", {}, "GPUs"), trouble.element,
    h("div", { class: "scroll-x" }, h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ...["GPU", "Device", "Memory", "State", "Jobs", ""].map((word) => h("th", {}, word)))),
      body)));
  return { element: h("div", { class: "two" }, table, form), open: draw, hear: draw };
}
