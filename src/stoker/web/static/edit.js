// A dialog with all that may change of a job while it waits.

import { h } from "./dom.js";
import { FieldErrors } from "./forms.js";
import { field, optionFields } from "./options.js";

// A dialog with what may change while a job waits; only what was changed is sent. It stays open to
// show what `save` gives: what is to be known of the change.
export async function editDialog(job, save) {
  const done = h("p", { class: "done", role: "status", hidden: true });
  const back = h("button", { type: "button", onclick: () => dialog.close() }, "Back");
  const submit = h("button", { type: "submit", class: "main" }, "Save");
  const options = await optionFields("", "edit");
  const trouble = new FieldErrors(options.keys);
  const changed = options.edits(job);
  const command = h("textarea", { name: "command", rows: 2, spellcheck: false, value: job.command });
  const changes = () => {
    const shell = command.value.trim();
    return { ...(shell === job.command.trim() ? {} : { changes: { shell } }), options: changed() };
  };
  const dialog = h("dialog", { "aria-label": "Edit the job" },
    h("form", { method: "dialog", onsubmit: async (event) => {
      event.preventDefault();
      trouble.clear();
      try {
        const said = changes();
        const told = said.changes || Object.keys(said.options).length ? await save(said) : [];
        if (!told.length) return dialog.close();
        done.textContent = `Saved.${told.map((text) => ` Note: ${text}.`).join("")}`;
        done.hidden = false;
        back.textContent = "Close";
        submit.remove(); // What is shown is compared with the job as it was.
      } catch (error) {
        trouble.show(dialog, error);
      }
    } },
    h("h2", {}, `Edit job ${job.id}`),
    isCall(job) ? null : field("Command", command, "as you would type it in a shell"),
    options.element,
    trouble.element,
    done,
    h("div", { class: "buttons" }, back, submit)));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// A function of a Python program: what is shown of it is not what is run.
function isCall(job) {
  return job.argv?.[2] === "--call";
}
