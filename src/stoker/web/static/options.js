// The options of a job, from the table that the command line has them from. What was typed is sent as it is: the
// server reads it as the command line would.

import { get } from "./api.js";
import { h } from "./dom.js";

// Groups that are open at once; the others open where something was typed.
const OPEN = new Set(["What it needs", "When it starts", "Names and groups", "Limits and retries"]);
// What a copy of a job does not take over.
const NOT_COPIED = new Set(["at", "after", "after_any", "after_pid", "hold", "slurm"]);
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

function label(key) {
  const words = key.replaceAll("_", " ").replace(/\b[cg]pu|\bmps\b/g, (word) => word.toUpperCase());
  return words[0].toUpperCase() + words.slice(1);
}

// The inputs of all options that can be said there ("job", "batch", "sweep" or "edit").
export async function optionFields(form, where, leftOut = []) {
  table ??= await get("/api/options");
  const fits = (one) => !one.not_in.includes(where) && !leftOut.includes(one.key);
  const inputs = new Map(table.options.filter(fits).map((one) => {
    // A flag may be set by the file of a project, and is then switched off.
    const said = one.choices[0] === "yes" ? ["yes", "no"] : one.choices;
    const choices = ["", ...said].map((value) => h("option", { value }, value));
    if (one.choices.length) return [one, remembered(form, one.key, {}, "select", ...choices)];
    return [one, remembered(form, one.key, { placeholder: one.example })];
  }));
  const groups = table.groups.map((group) => {
    const own = [...inputs].filter(([one]) => one.group === group);
    const open = OPEN.has(group) || own.some(([, input]) => input.value);
    return h("details", { open, hidden: !own.length }, h("summary", {}, group),
      h("div", { class: "fields" }, own.map(([one, input]) => field(label(one.key), input, one.means))));
  });
  return {
    element: h("div", { class: "stack" }, groups),
    read: () => typed([...inputs].filter(([, input]) => input.value.trim())),
    copy: (job) => {
      for (const [one, input] of inputs) {
        if (NOT_COPIED.has(one.key) || (one.key === "group" && job.point)) continue;
        input.value ||= textOf(one, job);
        if (input.value) input.closest("details").open = true;
      }
    },
    // To be edited: what has changed since, and null for what was taken away.
    edits: (job) => {
      for (const [one, input] of inputs) input.value = input.dataset.before = textOf(one, job);
      return () => typed([...inputs].filter(([, input]) => input.value.trim() !== input.dataset.before));
    },
  };
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
