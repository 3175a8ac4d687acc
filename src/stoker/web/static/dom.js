// Making and changing elements. Law: text from outside only ever becomes a text node.

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  apply(element, attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function apply(element, attributes) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "data") for (const [key, one] of Object.entries(value)) element.dataset[key] = one;
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name in element && name !== "list" && name !== "form") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

// Changes that are none touch nothing, so that nothing flickers and no selection is lost.
export function setText(element, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

// What stands where nothing is to be seen, and what to do about it.
export function setNote(element, words, href, action) {
  if (element.textContent === `${words} ${action}`) return;
  element.replaceChildren(`${words} `, h("a", { href }, action));
}

export function setData(element, name, value) {
  const wanted = value === null || value === undefined ? "" : String(value);
  if (element.dataset[name] !== wanted) element.dataset[name] = wanted;
}

export function setHidden(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}

// Keeps the children of an element in step with a list: made once, changed in place, moved at need.
export function keyed(parent, items, keyOf, make, change) {
  const known = parent.keyedChildren || (parent.keyedChildren = new Map());
  const wanted = new Set();
  let place = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    if (wanted.has(key)) continue;
    wanted.add(key);
    let child = known.get(key);
    if (!child) {
      child = make(item);
      known.set(key, child);
    }
    change(child, item);
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
  }
  for (const [key, child] of known) {
    if (!wanted.has(key)) {
      child.remove();
      known.delete(key);
    }
  }
}

export function clear(element) {
  element.replaceChildren();
  element.keyedChildren = undefined;
}

// A tip that follows what is pointed at.
const tip = () => document.getElementById("tip");

export function showTip(event, ...content) {
  const box = tip();
  box.replaceChildren(...content);
  box.hidden = false;
  const at = event.target.getBoundingClientRect();
  const x = event.clientX || at.left;
  const y = event.clientY || at.bottom;
  const size = box.getBoundingClientRect();
  box.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - size.width - 8))}px`;
  box.style.top = `${y + 18 + size.height > innerHeight ? Math.max(4, y - size.height - 12) : y + 18}px`;
}

export function hideTip() {
  tip().hidden = true;
}

// A question that waits for an answer. Escape means no.
export function ask(question, { yes = "Yes", danger = false, details = "" } = {}) {
  return new Promise((resolve) => {
    const confirm = h("button", { type: "submit", class: danger ? "danger" : "main" }, yes);
    const dialog = h(
      "dialog",
      { "aria-label": question },
      h("form", { method: "dialog", onsubmit: () => dialog.close("yes") },
        h("h2", {}, question),
        details ? h("p", { class: "dim" }, details) : null,
        h("div", { class: "buttons" },
          h("button", { type: "button", onclick: () => dialog.close("no") }, "Back"),
          confirm)),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
    confirm.focus();
  });
}

function sentence(words) {
  return `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;
}

// Where an order was given is where its failure is told, with what to do.
export function errorBox() {
  const box = h("div", { class: "error", role: "alert", hidden: true });
  return {
    element: box,
    show(error) {
      const hint = error.hint ? [" ", h("span", { class: "hint" }, sentence(error.hint))] : [];
      box.replaceChildren(h("span", { class: "what" }, sentence(error.message)), ...hint);
      box.hidden = false;
    },
    clear() {
      box.hidden = true;
      box.replaceChildren();
    },
  };
}
