// A metric over each parameter, one small picture each, and how much each parameter matters.

import { clear, h, hideTip, keyed, setText, svg } from "./dom.js";
import { count } from "./format.js";
import { label } from "./plot.js";
import { isThere, scaleOf, shortened } from "./sweepdata.js";
import { openJob, tipOf } from "./sweepplots.js";

const SIZE = { width: 340, height: 210, left: 52, right: 12, top: 24, bottom: 24 };
const MOST_PICTURES = 24;
const NEAR = 14; // units of a picture within which a point is meant

export function scatters(box, points, names, shown, marked) {
  clear(box);
  const known = points.filter((point) => isThere(point.value));
  if (!known.length) {
    box.append(h("p", { class: "dim" }, `No point has a value of ${shown.title} yet.`));
    return;
  }
  const down = scaleOf(known.map((point) => point.value));
  for (const name of names.slice(0, MOST_PICTURES)) box.append(scatter(known, name, names, shown, marked, down));
  if (names.length > MOST_PICTURES) {
    box.append(h("p", { class: "dim" }, `The first ${MOST_PICTURES} of ${names.length} parameters.`));
  }
}

function scatter(points, name, names, shown, marked, down) {
  const { width, height, left, right, top, bottom } = SIZE;
  const own = points.filter((point) => name in point.params && (typeof point.params[name] !== "number"
    || isThere(point.params[name])));
  const across = scaleOf(own.map((point) => point.params[name]));
  // Words stand away from the axes, as columns do.
  const inset = across.isNumber ? 6 : 24;
  const x = (part) => left + inset + part * (width - left - right - 2 * inset);
  const y = (part) => height - bottom - 6 - part * (height - top - bottom - 12);
  const at = own.map((point) => [x(across.part(point.params[name])), y(down.part(point.value))]);
  const picture = svg("svg", { class: "scatter", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${shown.title} over ${name}` });
  const title = label(left, 14, shortened(name, 34) + (across.isLog ? " (log)" : ""), "start", { class: "name" });
  title.append(svg("title", {}, name));
  picture.append(title,
    svg("path", { class: "frame", d: `M${left} ${top}V${height - bottom}H${width - right}` }));
  for (const [words, part] of down.marks) {
    const said = shown.metric === null ? shown.words(Number(words)) : words;
    picture.append(label(left - 5, y(part) + 4, shortened(said, 8), "end"),
      svg("path", { class: "grid", d: `M${left} ${y(part).toFixed(1)}H${width - right}` }));
  }
  const few = across.marks.length > 5 ? [across.marks[0], across.marks[across.marks.length - 1]] : across.marks;
  few.forEach(([words, part], place) => {
    const anchor = across.isNumber && few.length > 1 && place === 0 ? "start"
      : across.isNumber && place === few.length - 1 && few.length > 1 ? "end" : "middle";
    picture.append(label(x(part), height - 8, shortened(words, Math.floor(44 / few.length)), anchor));
  });
  // One path has all dots: a line without a length is a dot.
  const size = own.length <= 300 ? "dots few" : "dots";
  picture.append(svg("path", { class: size, d: at.map(([a, b]) => `M${a.toFixed(1)} ${b.toFixed(1)}h0`).join("") }));
  own.forEach((point, place) => {
    if (marked.has(point)) picture.append(svg("circle", { class: "best", cx: at[place][0], cy: at[place][1], r: 5.5 }));
  });
  const ring = svg("circle", { class: "pointed", r: 5, visibility: "hidden" });
  picture.append(ring);

  function near(event) {
    const frame = picture.getBoundingClientRect();
    const [px, py] = [((event.clientX - frame.left) / frame.width) * width,
      ((event.clientY - frame.top) / frame.height) * height];
    let found = -1;
    let nearest = NEAR * NEAR;
    at.forEach(([a, b], place) => {
      const distance = (a - px) ** 2 + (b - py) ** 2 - (marked.has(own[place]) ? 9 : 0);
      if (distance < nearest) [nearest, found] = [distance, place];
    });
    return found;
  }
  function leave() {
    ring.setAttribute("visibility", "hidden");
    picture.classList.remove("over");
    hideTip();
  }
  picture.addEventListener("pointermove", (event) => {
    const place = near(event);
    if (place < 0) {
      leave();
      return;
    }
    ring.setAttribute("cx", at[place][0]);
    ring.setAttribute("cy", at[place][1]);
    ring.setAttribute("visibility", "visible");
    picture.classList.add("over");
    tipOf(event, own[place], names, shown);
  });
  picture.addEventListener("pointerleave", leave);
  picture.addEventListener("click", (event) => {
    const place = near(event);
    if (place >= 0) openJob(own[place]);
  });
  return picture;
}

export function importanceBars() {
  const list = h("ul", { class: "importance" });
  const words = h("p", { class: "dim" });
  return {
    element: h("div", {}, list, words),
    show(answer, shown) {
      keyed(list, answer.importance, (one) => one.name, (one) => h("li", {},
        h("bdi", { class: "cut", title: one.name }, one.name), h("span", { class: "track" }, h("span", {})),
        h("span", { class: "num" })), (row, one) => {
        const share = one.share === null ? 0 : one.share;
        row.children[1].firstChild.style.setProperty("width", `${(share * 100).toFixed(1)}%`);
        setText(row.children[2], one.share === null ? "?" : `${Math.round(share * 100)} %`);
      });
      const unknown = answer.importance.some((one) => one.share === null) ? " ?: these points do not tell." : "";
      const few = answer.rough ? ` Only ${count(answer.judged_by, "point")}: take it as a hint.` : "";
      setText(words, `How much of the order of ${count(answer.judged_by, "point")} by ${shown.title} goes along with`
        + ` each parameter alone.${few}${unknown}`);
    },
  };
}
