// What takes how much of the disk, and how much is free: what `stoker disk` says.

import { get } from "./api.js";
import { clear, errorBox, h, setHidden } from "./dom.js";
import { bytes } from "./format.js";

const MOST_ROWS = 20;
const AGAIN_MS = 15000;

export function diskView() {
  const trouble = errorBox();
  const rooms = h("div", { class: "stack" });
  const tables = h("div", { class: "two" });
  const missing = h("p", { class: "empty" }, "…");
  const element = h("div", { class: "stack disk" }, h("h1", {}, "Disk"), trouble.element, missing, rooms, tables);
  let timer = 0;
  let closed = false;

  async function refresh() {
    try {
      const answer = await get("/api/disk");
      if (closed) return;
      trouble.clear();
      setHidden(missing, true);
      draw(answer);
    } catch (error) {
      if (closed) return;
      if (error.status !== 0) trouble.show(error);
    }
    timer = setTimeout(refresh, AGAIN_MS);
  }

  function draw(answer) {
    clear(rooms);
    rooms.append(...answer.disks.map(room));
    clear(tables);
    tables.append(
      card("What takes room", ["Part", "Size", "Files"],
        answer.parts.map((one) => [one.part, bytes(one.bytes), String(one.files)])),
      card("Logs", ["Of jobs", "Group", "Size", "Jobs"],
        answer.logs.slice(0, MOST_ROWS).map((one) =>
          [one.state, one.group === null ? "" : h("bdi", {}, one.group), bytes(one.bytes), String(one.jobs)])),
      card("Largest logs", ["Job", "Size"],
        answer.largest.map((one) => [h("a", { href: `#/job/${one.id}` }, `job ${one.id}`), bytes(one.bytes)])));
  }

  function room(disk) {
    const taken = disk.total_bytes - disk.free_bytes;
    const low = disk.low;
    return h("section", { class: "card pad room", data: { low: low || "" } },
      h("div", {}, h("b", { class: "num" }, `${bytes(disk.free_bytes)} of ${bytes(disk.total_bytes)} free`),
        " on the disk of ", h("code", {}, disk.path)),
      h("meter", { min: 0, max: disk.total_bytes, value: taken, "aria-label": "taken" }),
      low ? h("p", { class: "bad" }, low === "stop"
        ? "No job starts until there is more room (setting disk-stop)."
        : "There is little room left (setting disk-warn).") : null);
  }

  function card(title, heads, rows) {
    return h("section", { class: "card pad", hidden: !rows.length }, h("h2", {}, title),
      h("div", { class: "scroll-x" }, h("table", { class: "plain" },
        h("tr", {}, ...heads.map((word) => h("th", {}, word))),
        ...rows.map((row) => h("tr", {}, ...row.map((value) => h("td", { class: "num" }, value)))))));
  }

  return {
    element,
    title: "Disk",
    open: refresh,
    close: () => {
      closed = true;
      clearTimeout(timer);
    },
  };
}
