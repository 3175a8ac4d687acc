// The GPUs of the machine: their cards, small or large, and how others are added.

import { get, post } from "./api.js";
import { errorBox, h, keyed, setHidden, setText } from "./dom.js";
import { now, serverNow } from "./feed.js";
import { cardSize, gpuCard } from "./gpu.js";

const HISTORY_MS = 5000;
const KEPT = "stoker.gpus";

export function gpuSection() {
  const cards = h("div", { class: "gpus" });
  const none = h("p", { class: "empty card", hidden: true }, "No GPUs are declared. ",
    h("button", { type: "button", class: "write", onclick: () => addDialog() }, "Add GPUs"),
    " or queue jobs that need none.");
  const size = h("button", { type: "button", class: "quiet small", onclick: () => resize() });
  const add = h("button", { type: "button", class: "quiet small write", onclick: () => addDialog() }, "Add GPUs");
  const histories = new Map();
  let timer = null;

  const sizeNow = () => cardSize(localStorage.getItem(KEPT), now.gpus.length, innerWidth);

  function resize() {
    localStorage.setItem(KEPT, sizeNow() === "small" ? "large" : "small");
    draw();
  }

  function draw() {
    const small = sizeNow() === "small";
    cards.classList.toggle("small", small);
    setText(size, small ? "Large cards" : "Small cards");
    setHidden(size, now.gpus.length === 0);
    setHidden(none, now.gpus.length > 0 || now.link === "waiting");
    const byId = new Map(now.active.map((job) => [job.id, job]));
    const at = serverNow();
    keyed(cards, now.gpus, (gpu) => gpu.id, () => gpuCard(),
      (card, gpu) => card.show(gpu, byId, histories.get(gpu.id), at, small));
  }

  async function askHistory() {
    if (document.hidden) return;
    try {
      const answer = await get("/api/gpus/history");
      for (const [id, one] of Object.entries(answer.histories || {})) histories.set(id, one);
      draw();
    } catch {
      // The next time will do.
    }
  }

  return {
    element: h("section", { "aria-label": "GPUs" }, cards, none),
    tools: h("span", { class: "buttons" }, size, add),
    draw,
    open() {
      draw();
      askHistory();
      timer = setInterval(askHistory, HISTORY_MS);
    },
    close: () => clearInterval(timer),
  };
}

function addDialog() {
  const trouble = errorBox();
  const words = h("input", { name: "gpus", id: "add-gpus", placeholder: "4, 4-7 or 4:24G", autocomplete: "off" });
  const dialog = h("dialog", { "aria-label": "Add GPUs" },
    h("form", { method: "dialog", onsubmit: async (event) => {
      event.preventDefault();
      trouble.clear();
      const gpus = words.value.split(/[\s,]+/).filter(Boolean);
      try {
        if (!gpus.length) throw Object.assign(new Error("no GPU was named"), { hint: "Write e.g. 4 or 4:24G" });
        await post("/api/gpus/add", { gpus });
        dialog.close();
      } catch (error) {
        trouble.show(error);
      }
    } },
    h("h2", {}, "Add GPUs"),
    h("div", { class: "field" }, h("label", { for: "add-gpus" }, "GPUs to add"), words,
      h("small", { class: "dim" }, "by their index, with their memory if it matters")),
    trouble.element,
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Back"),
      h("button", { type: "submit", class: "main" }, "Add"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  words.focus();
}
