// Forms that tell in their own place what went wrong, each error at its field, and what came of it.

import { errorBox, h, setHidden } from "./dom.js";
import { unfold } from "./options.js";
import { saidOfField } from "./said.js";

// What is wrong with a field before anything is sent.
export class Wrong extends Error {
  constructor(message, hint, option = "") {
    super(message);
    this.hint = hint;
    this.option = option;
  }
}

// A whole number, at least 1; `what`: what it should be.
export function whole(input, what) {
  const text = input.value.trim();
  if (!/^[0-9]{1,9}$/.test(text) || Number(text) < 1) {
    throw new Wrong(`“${text}” is not ${what}`, "Write a whole number from 1 on", input.name);
  }
  return Number(text);
}

export function submitButton(words) {
  return h("button", { type: "submit", class: "main write" }, words);
}

// Errors in a form: at the field that they are about, else at the end.
export class FieldErrors {
  constructor(keys = []) {
    this.keys = keys;
    this.box = errorBox();
    this.element = this.box.element;
    this.input = null;
  }

  clear() {
    this.box.clear();
    if (!this.input) return;
    this.input.removeAttribute("aria-invalid");
    this.input.removeAttribute("aria-describedby");
    this.atField.element.remove();
    this.input = null;
  }

  show(form, error) {
    this.clear();
    const { field, ...said } = saidOfField(error, this.keys);
    const input = field ? form.querySelector(`[name="${CSS.escape(field)}"]`) : null;
    if (!input) return this.box.show(said);
    this.input = input;
    this.atField = errorBox();
    this.atField.element.id = `${input.id}-wrong`;
    this.atField.show(said);
    input.closest(".field").append(this.atField.element);
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", this.atField.element.id);
    unfold(input);
    input.focus();
    return undefined;
  }
}

export function formOf(parts, button, give, keys = []) {
  const trouble = new FieldErrors(keys);
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
      trouble.show(form, error);
    } finally {
      button.disabled = false;
    }
  } }, ...parts, trouble.element, done, h("div", { class: "buttons" }, button));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return form;
}
