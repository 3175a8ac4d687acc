// How far many jobs are: a bar of their states.

import { h } from "./dom.js";
import { STATES } from "./format.js";

export function progress() {
  const parts = new Map();
  const element = h("div", { class: "progress", role: "img" });
  for (const state of ["succeeded", "stopped", "failed", "lost", "cancelled", "skipped", "running", "stopping",
    "submitted", "waiting", "held"]) {
    const part = h("span", { data: { state } });
    parts.set(state, part);
    element.append(part);
  }
  return {
    element,
    show(counts, total) {
      for (const [state, part] of parts) {
        const width = `${total ? ((100 * (counts[state] || 0)) / total).toFixed(2) : 0}%`;
        if (part.style.width !== width) part.style.width = width;
      }
      element.setAttribute("aria-label", countsText(counts));
    },
  };
}

export function countsText(counts) {
  return STATES.filter((state) => counts[state]).map((state) => `${counts[state].toLocaleString("en")} ${state}`)
    .join(", ");
}
