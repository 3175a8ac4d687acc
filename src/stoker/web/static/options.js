// The options of a job, from the table that the command line has them from. What was typed is sent as it is: the
// server reads it as the command line would.

import { get } from "./api.js";
import { h } from "./dom.js";
import { inPageWords, label } from "./said.js";

// Groups that are open at once; the others open where something was typed.
const OPEN = new Set(["What it needs", "When it starts", "Names and groups", "Limits and retries"]);
// Of these groups what most jobs need; the rest of them is folded as well.
const USUAL = new Set(["gpus", "mem", "on", "cpus", "priority", "after", "at", "hold", "name", "group", "time_limit",
  "retries"]);
// What a copy of a job does not take over.
const NOT_COPIED = new Set(["at", "after", "after_any", "after_pid", "hold", "slurm"]);
// What most jobs have of an option that they do not use.
const NOTHING = new Set(["", "no", "0"]);
// What was typed is there when one comes back.
const kept = new Map();
let table = null;
let fields = 0;

export function field(words, input, hint = "") {
  input.id ||= `field-${(fields += 1)}`;
  return h("div", { class: "field" }, h("label", { for: input.id }, words), input,
    hint ? h("small", { class: "dim" }, hint) : null);
}

export function remembered(form, name, attributes, tag = "input", ...children) {
  const key = `${form}.${name}`;
  const input = h(tag, { name, autocomplete: "off", spellcheck: false, ...attributes }, ...children);
  if (form && kept.has(key)) input.value = kept.get(key);
  if (form) input.addEventListener("input", () => kept.set(key, input.value));
  return input;
}

// The inputs of all options that can be said there ("job", "batch", "sweep" or "edit").
export async function optionFields(form, where, leftOut = []) {
  table ??= await get("/api/options");
  const fits = (one) => !one.not_in.includes(where) && !leftOut.includes(one.key);
  const keys = table.options.map((one) => one.key);
  const inputs = new Map(table.options.filter(fits).map((one) => {
    // A flag may be set by the file of a project, and is then switched off.
    const said = one.choices[0] === "yes" ? ["yes", "no"] : one.choices;
    const choices = ["", ...said].map((value) => h("option", { value }, value));
    if (one.choices.length) return [one, remembered(form, one.key, {}, "select", ...choices)];
    return [one, remembered(form, one.key, { placeholder: one.example })];
  }));
  const fold = (words, own, open, more = null) => h("details", { open: open || own.some(([, input]) => input.value),
    hidden: !own.length && !more }, h("summary", {}, words),
  h("div", { class: "fields" }, own.map(([one, input]) => field(label(one.key), input, inPageWords(one.means, keys)))),
  more);
  const groups = table.groups.map((group) => {
    const own = [...inputs].filter(([one]) => one.group === group);
    if (!OPEN.has(group)) return fold(group, own, false);
    const rare = own.filter(([one]) => !USUAL.has(one.key));
    const usual = own.filter(([one]) => USUAL.has(one.key));
    return fold(group, usual, true, rare.length ? fold("More", rare, false) : null);
  });
  return {
    element: h("div", { class: "stack options" }, groups),
    keys,
    read: () => typed([...inputs].filter(([, input]) => input.value.trim())),
    copy: (job) => {
      for (const [one, input] of inputs) {
        if (NOT_COPIED.has(one.key) || (one.key === "group" && job.point)) continue;
        input.value ||= textOf(one, job);
        if (input.value) unfold(input);
      }
    },
    // To be edited: what has changed since, and null for what was taken away.
    edits: (job) => {
      for (const [one, input] of inputs) {
        input.value = input.dataset.before = textOf(one, job);
        if (!NOTHING.has(input.value)) unfold(input);
      }
      return () => typed([...inputs].filter(([, input]) => input.value.trim() !== input.dataset.before));
    },
  };
}

export function unfold(input) {
  for (let fold = input.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
}

function typed(inputs) {
  return Object.fromEntries(inputs.map(([one, input]) => [one.key, input.value.trim() || null]));
}

// How one would type what a job has; "" for nothing, and for what is not shown of a job.
function textOf(one, job) {
  if (one.key === "signal") return job.signal_spec || ""; // `signal` is the one that ended it.
  for (const name of [...one.fields].reverse()) {
    const value = job.need[name] ?? job.options[name] ?? job[name] ?? null;
    if (value === null || value.length === 0 || name === "not_before_ms") continue;
    if (typeof value === "boolean") return value ? "yes" : one.choices.includes("no") ? "no" : "";
    if (name.endsWith("_ms")) return `${value / 1000}s`;
    if (name.endsWith("_mib")) return `${value}M`;
    return String(value); // A list becomes one with commas.
  }
  return "";
}
