// Submit: one job, many lines, a sweep, or a process that runs already.

import { get, post } from "./api.js";
import { ask, clear, errorBox, h, keyed, setHidden, setText } from "./dom.js";
import { now } from "./feed.js";
import { count, gib, valueText } from "./format.js";
import { FieldErrors, formOf, submitButton, whole, Wrong } from "./forms.js";
import { spaceOf, templateOf } from "./morepoints.js";
import { field, optionFields, remembered } from "./options.js";

const TABS = [["job", "One job"], ["lines", "Many lines"], ["sweep", "Sweep"], ["adopt", "Running process"]];

export function submitView(tab, query, me) {
  const body = h("div", {});
  const tabs = h("div", { class: "choice", role: "tablist" }, ...TABS.map(([key, words]) =>
    h("button", { type: "button", role: "tab", "aria-selected": String(key === tab),
      onclick: () => { location.hash = `#/submit/${key}`; } }, words)));
  const element = h("div", { class: "stack submit" }, h("div", { class: "bar" }, h("h1", {}, "Submit"), tabs),
    me.read_only ? h("p", { class: "notice" }, "This browser may only look.") : null, body);
  const make = { job: jobForm, lines: linesForm, sweep: sweepForm, adopt: adoptForm }[tab];
  let made = null;
  let closed = false;
  const open = async () => {
    if (!make) return body.append(h("p", { class: "empty" }, "There is nothing here."));
    const trouble = errorBox();
    body.append(trouble.element);
    try {
      made = await make(query, me);
    } catch (error) {
      return trouble.show(error);
    }
    body.append(made.element);
    if (!closed) made.open();
  };
  const close = () => {
    closed = true;
    made?.close?.();
  };
  return { element, title: "Submit", open, close, hear: (change) => made?.hear?.(change) };
}

function queued({ ids, warnings = [] }) {
  const [first, last] = [ids[0], ids[ids.length - 1]];
  const link = (id, words) => h("a", { href: `#/job/${id}` }, words);
  const told = warnings.map((text) => ` Note: ${text}.`);
  if (ids.length === 1) return ["Queued as ", link(first, `job ${first}`), ".", ...told];
  const range = [link(first, String(first)), " to ", link(last, String(last))];
  return [`${count(ids.length, "job")} queued: `, ...range, ".", ...told];
}

// ---- one job

async function jobForm(query, me) {
  const clone = query.get("clone");
  const form = clone ? `clone ${clone}` : "job";
  const example = { rows: 3, placeholder: "python train.py --lr 0.1", required: true };
  const input = remembered(form, "command", example, "textarea");
  const cwd = remembered(form, "cwd", { placeholder: me.directory });
  const options = await optionFields(form, "job", ["cwd"]);
  const button = submitButton("Queue the job");
  const note = h("p", { class: "dim", hidden: !clone }, clone ? `A copy of job ${clone}, with its environment.` : "");
  let original = null;

  const element = formOf([
    note,
    field("Command", input, "as you would type it in a shell"),
    field("Directory", cwd, "a whole path, or ~/…"),
    options.element,
  ], button, async () => {
    const command = input.value.trim();
    if (!command) throw new Wrong("There is no command", "Write one, e.g. python train.py", "command");
    const same = original && command === original.command && original.argv.length;
    const job = same ? { argv: original.argv } : { shell: command };
    const order = { jobs: [job], options: options.read(), cwd: cwd.value.trim() || null };
    if (original) order.environment_of = original.id;
    return queued(await post("/api/jobs", order));
  }, options.keys);

  async function open() {
    if (!clone) {
      input.focus();
      return;
    }
    try {
      const { job } = await get(`/api/jobs/${Number(clone)}`);
      original = job;
      input.value ||= job.command;
      cwd.value ||= job.cwd;
      options.copy(job);
    } catch (error) {
      setText(note, `${error.message}. ${error.hint}`);
    }
  }
  return { element, open };
}

// ---- many lines

const PREVIEWED = 50;
const MOST_READ = 10_000; // points of a sweep whose values are offered again
const END = /(?<!;);;;(?!;)|;;;[ \t]*$/m; // Four in a row are an output file that is not named.

const PARTS = /^(.*?);;(.*?);;(.*)$/s;
const COMMENTS = /^(\s*#.*(\n|$))+/;
// No shell takes such a line: outside of quotes and of `case`, which has a bracket first, `;;` is an error.
const UNENDED = /^[^;'"()]*;;[^;'"()]*;;/m;

// One command per line; or, as in GPUPeasy's page, NAME;;OUT;;COMMAND;;; per job, over any number of lines.
function jobsIn(text) {
  if (!text.includes(";;;")) {
    return text.split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#"))
      .map((line) => ({ shell: ended(line, line) }));
  }
  return text.split(END).map((one) => one.replace(COMMENTS, "").trim()).filter(Boolean).map((one) => {
    const [name, out, shell] = (PARTS.exec(one) ?? []).slice(1).map((part) => part.trim());
    if (!shell) {
      throw new Wrong(`“${brief(one)}” ends with ;;;, but is not NAME;;OUT;;COMMAND`,
        "Write all three parts, e.g. first;;;;python train.py;;; or one command per line without ;;;");
    }
    ended(shell.split("\n").slice(1).join("\n"), one);
    return { shell, ...(name && { name }), ...(out && { out }) };
  });
}

// What was typed may be long: as much of it as tells which job is meant.
function brief(job) {
  const [first, ...more] = job.split("\n");
  return first.length > 60 || more.length ? `${first.slice(0, 60)}…` : first;
}

// The commands, unless there is the beginning of a job in them that should come after a `;;;`.
function ended(commands, job) {
  if (UNENDED.test(commands)) throw new Wrong(`“${brief(job)}” has no ;;; at its end`, "End each job with ;;;");
  return commands;
}

function preview(jobs) {
  const row = (kind, cells) => h("tr", {}, ...cells.map((cell) => h(kind, {}, cell ?? "")));
  const rows = jobs.slice(0, PREVIEWED).map((job) => row("td", [job.name, job.out, job.shell]));
  const head = h("thead", {}, row("th", ["Name", "Output", "Command"]));
  return h("table", { class: "preview" }, head, h("tbody", {}, ...rows));
}

async function linesForm(query, me) {
  const lines = remembered("lines", "lines", { rows: 10,
    placeholder: "python train.py --seed 1\npython train.py --seed 2\n# a line like this is left out\n\n"
      + "or, for each job: NAME;;OUTPUT FILE;;COMMAND;;;" }, "textarea");
  const cwd = remembered("lines", "cwd", { placeholder: me.directory });
  const options = await optionFields("lines", "batch", ["cwd"]);
  const button = submitButton("Queue the lines");
  const tally = h("p", { class: "dim num" });
  const shown = h("div", {});
  const tell = () => {
    clear(shown);
    try {
      const found = jobsIn(lines.value);
      setText(tally, found.length ? count(found.length, "job") : "");
      if (found.some((job) => job.name || job.out)) shown.append(preview(found));
    } catch (error) {
      setText(tally, `${error.message}. ${error.hint}`);
    }
  };
  lines.addEventListener("input", tell);
  tell();
  const element = formOf([
    field("Commands, one a line", lines), tally, shown,
    field("Directory", cwd, "a whole path, or ~/…"),
    options.element,
  ], button, async () => {
    const found = jobsIn(lines.value);
    if (!found.length) throw new Wrong("There is no command", "Write one a line", "lines");
    return queued(await post("/api/jobs", { jobs: found, options: options.read(), cwd: cwd.value.trim() || null }));
  }, options.keys);
  return { element, open: () => lines.focus() };
}

// ---- a sweep

async function sweepForm(query, me) {
  const more = query.get("more");
  const form = more ? `more ${more}` : "sweep";
  const space = remembered(form, "space",
    { rows: 4, placeholder: "lr=0.1,0.01,0.001\nbs=range(16,65,16)" }, "textarea");
  const command = remembered(form, "command",
    { rows: 2, placeholder: "python train.py --lr {lr} --bs {bs}" }, "textarea");
  const inputs = {
    name: remembered(form, "name", { placeholder: "by its command" }),
    cwd: remembered(form, "cwd", { placeholder: me.directory }),
    samples: remembered(form, "samples", { placeholder: "the whole grid", inputMode: "numeric" }),
    where: remembered(form, "where", { placeholder: "lr * bs < 4" }),
    most: remembered(form, "most", { placeholder: "no limit", inputMode: "numeric" }),
  };
  const rerun = h("select", {}, h("option", { value: "" }, "new and failed points"),
    h("option", { value: "failed" }, "only failed points"), h("option", { value: "all" }, "all points"));
  const options = await optionFields(form, "sweep", ["cwd"]);
  const button = submitButton("Queue the sweep");
  const preview = h("section", { class: "card pad preview", "aria-label": "Preview", "aria-live": "polite" },
    h("h2", {}, "Preview"));
  const previewCount = h("p", { class: "num" }, "Write parameters and a command.");
  const previewTrouble = new FieldErrors([...options.keys, "where"]);
  const previewHead = h("tr", {});
  const previewBody = h("tbody", {});
  preview.append(previewCount, previewTrouble.element,
    h("div", { class: "scroll-x" }, h("table", { class: "plain" }, h("thead", {}, previewHead), previewBody)));

  const order = () => {
    const found = { space: space.value.split("\n").map((line) => line.trim()).filter(Boolean),
      command: command.value.trim() };
    if (!found.space.length) throw new Wrong("There is no parameter", "Write e.g. lr=0.1,0.01", "space");
    if (!found.command) throw new Wrong("There is no command", "Write one, e.g. python train.py", "command");
    if (inputs.name.value.trim()) found.name = inputs.name.value.trim();
    if (inputs.cwd.value.trim()) found.cwd = inputs.cwd.value.trim();
    if (inputs.samples.value.trim()) found.samples = whole(inputs.samples, "a number of points");
    if (inputs.where.value.trim()) found.where = [inputs.where.value.trim()];
    if (inputs.most.value.trim()) found.max_running = whole(inputs.most, "a number of jobs");
    if (rerun.value) found.rerun = rerun.value;
    return { ...found, options: options.read() };
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
      previewTrouble.show(preview, error);
      setText(previewCount, "");
      previewHead.replaceChildren();
      clear(previewBody);
    }
  }
  const soon = () => {
    clearTimeout(typing);
    typing = setTimeout(look, 250);
  };

  const element = formOf([
    more ? h("p", { class: "dim" }, `More points for ${more}: change the values. What has run, runs or waits is not `
      + "queued again, if the command means the same.") : null,
    field("Parameters, one a line", space, "lists, range(…), uniform(…), loguniform(…), zip(…)"),
    field("Command", command, "{name} stands for a value; parameters without a place are appended"),
    h("div", { class: "fields" },
      field("Name", inputs.name), field("Directory", inputs.cwd, "a whole path, or ~/…"),
      field("Samples", inputs.samples, "so many points at random"),
      field("Only where", inputs.where), field("At a time", inputs.most, "at most so many run"),
      field("Queue", rerun)),
    options.element,
  ], button, async () => {
    const answer = await post("/api/sweep", order());
    const parts = [`${answer.ids.length} queued`];
    if (answer.succeeded_before) parts.push(`${answer.succeeded_before} succeeded before`);
    if (answer.unfinished) parts.push(`${answer.unfinished} queued or running already`);
    if (answer.not_tried) parts.push(`${answer.not_tried} not tried yet`);
    return [`${count(answer.count, "point")}: ${parts.join(", ")}. `,
      h("a", { href: `#/sweep/${encodeURIComponent(answer.sweep)}` }, "To the sweep")];
  }, [...options.keys, "where"]);
  element.addEventListener("input", soon);

  // What the sweep has, to be changed.
  async function begin() {
    const { points } = await get("/api/sweep", { name: more, limit: MOST_READ });
    const { job } = await get(`/api/jobs/${points[0].id}`);
    space.value ||= spaceOf(points).join("\n");
    command.value ||= job.argv.length ? templateOf(job.argv, job.params) : job.shell ?? "";
    inputs.name.value ||= more;
    inputs.cwd.value ||= job.cwd;
    options.copy(job);
  }

  return {
    element: h("div", { class: "two" }, element, preview),
    open: async () => {
      space.focus();
      try {
        if (more) await begin();
      } catch (error) {
        return previewTrouble.show(preview, error);
      }
      return look();
    },
    close: () => clearTimeout(typing),
  };
}

// ---- a process that runs already

function adoptForm() {
  const input = (name, placeholder) => remembered("adopt", name, { placeholder });
  const pid = input("pid", "4711");
  const said = { on: input("on", "0,1"), mem: input("mem", "8G"), name: input("name", "NAME"),
    group: input("group", "GROUP") };
  const button = submitButton("Make it a job");
  const element = formOf([
    h("p", { class: "dim" }, "A training that was started by hand becomes a job: its GPUs are taken until it ends. "
      + "Stoker never signals it."),
    field("Process", pid, "its id, as ps and nvidia-smi show it"),
    h("div", { class: "fields" },
      field("GPUs", said.on, "those that it uses (default: those on which the driver shows it)"),
      field("GPU memory", said.mem, "the memory that it takes of each, which jobs may then share (default: all); "
        + "auto: as much as is measured"),
      field("Name", said.name), field("Group", said.group)),
  ], button, async () => {
    const options = Object.fromEntries(Object.entries(said).map(([key, one]) => [key, one.value.trim() || null]));
    const { id, gpus, process } = await post("/api/jobs/adopt", { pid: whole(pid, "the id of a process"), options });
    return [h("a", { href: `#/job/${id}` }, `Job ${id}`), ` is process ${process} on GPU ${gpus.join(", ")}.`];
  });
  return { element, open: () => pid.focus() };
}
