// The bar for the jobs that are chosen in a list: how many, and what can be ordered of them.

import { idsOf, rangesOf } from "./choosing.js";
import { compareAddress } from "./compare.js";
import { errorBox, h, setHidden, setText } from "./dom.js";
import { count } from "./format.js";
import { give, giveMatching, latest, possible, setPriority } from "./orders.js";
import { logsAddress } from "./sidelogs.js";

const ORDERS = [["cancel", "Cancel"], ["retry", "Retry"], ["hold", "Hold"], ["release", "Release"],
  ["edit", "Priority…"], ["remove", "Forget"]];
const DANGEROUS = new Set(["cancel", "remove"]);
const MOST_IN_ADDRESS = 4000; // letters
const MOST_LOOKED_AT = 500; // jobs; whether an order fits more of them is seen when it is given

export class ChosenBar {
  // trouble: where failures are told; remember: told what the address should say of what is chosen.
  constructor(list, trouble, remember) {
    this.list = list;
    this.trouble = trouble;
    this.remember = remember;
    this.number = h("b", {});
    this.buttons = ORDERS.map(([name, words]) => h("button", {
      type: "button", class: `small${DANGEROUS.has(name) ? " danger" : ""}`, data: { order: name },
      onclick: () => this.order(name),
    }, words));
    this.compare = h("a", { class: "button small" }, "Compare");
    this.logs = h("a", { class: "button small" }, "Logs");
    this.rest = h("button", { type: "button", class: "small quiet", onclick: () => list.chooseAll() });
    this.element = h("div", { class: "bar chosen write", role: "region", "aria-label": "Chosen jobs" }, this.number,
      ...this.buttons, this.compare, this.logs,
      this.rest, h("button", { type: "button", class: "small quiet", onclick: () => list.chooseNone() }, "None"));
    list.onchosen = () => this.show();
  }

  get jobs() {
    return [...this.list.chosen.jobs.values()];
  }

  show() {
    const { all, jobs, some } = this.list.chosen;
    this.element.classList.toggle("some", some);
    if (all) setText(this.number, `All ${count(this.list.total ?? 0, "job")} that match`);
    else setText(this.number, some ? `${count(jobs.size, "job")} chosen` : "");
    for (const link of [this.compare, this.logs]) link.classList.toggle("off", all);
    this.compare.href = compareAddress(jobs.keys());
    this.logs.href = logsAddress(jobs.keys());
    setText(this.rest, `All ${(this.list.total ?? 0).toLocaleString("en")} that match`);
    setHidden(this.rest, all || jobs.size >= (this.list.total ?? 0));
    const can = all || jobs.size > MOST_LOOKED_AT ? null : this.jobs.map(possible);
    for (const button of this.buttons) button.disabled = Boolean(can) && !can.some((one) => one[button.dataset.order]);
    const ranges = rangesOf(jobs.keys());
    this.remember(all ? "all" : ranges.length > MOST_IN_ADDRESS ? "" : ranges);
  }

  // What was chosen when one was here before.
  async again(said) {
    try {
      if (said === "all") return this.list.loaded(() => this.list.chooseAll());
      for (const [id, job] of await latest(idsOf(said))) this.list.chosen.jobs.set(id, job);
      this.show();
      this.list.draw();
    } catch {
      // They can be chosen again.
    }
    return undefined;
  }

  // What is chosen and not seen is asked for, so that the buttons fit what it is now.
  async look({ changed, many }) {
    const { all, jobs } = this.list.chosen;
    if (all) return this.show();
    const ids = [...jobs.keys()].filter((id) => many || changed.includes(id));
    if (!ids.length || jobs.size > MOST_LOOKED_AT) return undefined;
    try {
      const now = await latest(ids);
      for (const id of ids) {
        if (!jobs.has(id)) continue;
        if (now.has(id)) jobs.set(id, now.get(id));
        else jobs.delete(id);
      }
      this.show();
    } catch {
      // An order looks again.
    }
    return undefined;
  }

  async order(name, jobs = null) {
    const all = jobs === null && this.list.chosen.all;
    this.trouble.clear();
    try {
      const done = await this.#give(name, jobs ?? this.jobs, all && this.list.query);
      if (!done) return;
      if (jobs === null) this.list.chooseNone();
    } catch (error) {
      this.trouble.show(error);
    }
    this.list.refresh();
  }

  async #give(name, jobs, wanted) {
    if (name !== "edit") return wanted ? giveMatching(name, wanted) : give(name, jobs);
    const some = wanted ? count(this.list.total, "job") : count(jobs.length, "job");
    const priority = await askPriority(some, wanted ? 0 : jobs[0].priority);
    if (priority === null) return false;
    if (wanted) return giveMatching("edit", wanted, { changes: { priority } });
    await setPriority(jobs, priority);
    return true;
  }
}

// The number that was typed; null if none was.
function askPriority(some, before) {
  return new Promise((resolve) => {
    const input = h("input", { type: "number", step: 1, name: "priority", "aria-label": "Priority", value: before });
    const trouble = errorBox();
    const dialog = h("dialog", { "aria-label": "Priority" }, h("form", { method: "dialog", novalidate: true,
      onsubmit: (event) => {
        event.preventDefault();
        if (!/^-?\d{1,9}$/.test(input.value)) {
          return trouble.show({ message: "a priority is a whole number", hint: "Write e.g. 0 or -5" });
        }
        return dialog.close(input.value);
      } },
    h("h2", {}, `Priority of ${some}`),
    h("p", { class: "dim" }, "Lower goes first. Jobs that have started keep theirs."), input, trouble.element,
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => dialog.close("") }, "Back"),
      h("button", { type: "submit", class: "main" }, "Set"))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "" ? null : Number(dialog.returnValue));
    });
    document.body.append(dialog);
    dialog.showModal();
    input.select();
  });
}
