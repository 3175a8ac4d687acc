// Views that a user keeps by name: the address says all of a view, so an address is what is kept, in this browser.

import { h, keyed, setHidden } from "./dom.js";

const KEPT = "stoker.views";
const MOST = 50;

export function savedViews(storage = localStorage) {
  try {
    const found = JSON.parse(storage.getItem(KEPT) || "[]");
    return Array.isArray(found) ? found.filter(isOne).slice(0, MOST) : [];
  } catch {
    return [];
  }
}

function isOne(one) {
  return typeof one?.name === "string" && typeof one.address === "string" && one.address.startsWith("#/");
}

// The same name again takes the place of the one before.
export function saveView(name, address, storage = localStorage) {
  const others = savedViews(storage).filter((one) => one.name !== name);
  storage.setItem(KEPT, JSON.stringify([{ name, address }, ...others].slice(0, MOST)));
}

export function forgetView(name, storage = localStorage) {
  storage.setItem(KEPT, JSON.stringify(savedViews(storage).filter((one) => one.name !== name)));
}

export function showSavedViews(title) {
  const name = h("input", { name: "view", value: title, maxLength: 80, "aria-label": "Name of this view",
    required: true });
  const list = h("ul", { class: "saved" });
  const none = h("p", { class: "dim" },
    "None yet. What is shown now, with its filter, order and range, can be the first.");
  const draw = () => {
    const found = savedViews();
    setHidden(none, found.length > 0);
    keyed(list, found, (one) => `${one.name} ${one.address}`, (one) => h("li", {},
      h("a", { href: one.address, onclick: () => dialog.close() }, h("bdi", {}, one.name)),
      h("button", { type: "button", class: "small quiet", "aria-label": `Forget ${one.name}`, onclick: () => {
        forgetView(one.name);
        draw();
      } }, "✕")), () => {});
  };
  const dialog = h("dialog", { "aria-label": "Saved views" },
    h("h2", {}, "Saved views"), none, list,
    h("form", { class: "bar", onsubmit: (event) => {
      event.preventDefault();
      saveView(name.value.trim() || title, location.hash || "#/");
      draw();
    } }, name, h("button", { type: "submit", class: "main" }, "Save this view")),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  draw();
  dialog.showModal();
}
