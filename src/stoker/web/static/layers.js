// Where the jobs around one stand in a picture: what it waits for to its left, what waits for it to its right.
// In rem, so that the picture grows with the letters. Without DOM, so that it is tried without a browser.

export const BOX = { width: 12, height: 2.3 };
const GAP = { x: 3, y: 0.7 };
const MOST_IN_COLUMN = 8; // The last place of a longer one says how many more there are.

// How many steps each job is from the one in the middle, by the longest way: all links lead to the right.
export function levels(middle, links) {
  const found = new Map([[middle, 0]]);
  for (const [from, to, step] of [[1, 0, -1], [0, 1, 1]]) {
    const next = new Map();
    for (const link of links) next.set(link[from], [...(next.get(link[from]) ?? []), link[to]]);
    let wave = new Set([middle]);
    // No way is longer than there are links.
    for (let level = step; wave.size && Math.abs(level) <= links.length; level += step) {
      wave = new Set([...wave].flatMap((id) => next.get(id) ?? []).filter((id) => id !== middle));
      for (const id of wave) found.set(id, level);
    }
  }
  return found;
}

export function picture(middle, jobs, links) {
  const level = levels(middle, links);
  const columns = new Map();
  for (const job of jobs) {
    if (!level.has(job.id)) continue;
    const at = level.get(job.id);
    columns.set(at, [...(columns.get(at) ?? []), job]);
  }
  const order = [...columns.keys()].sort((a, b) => a - b);
  const most = Math.min(MOST_IN_COLUMN, Math.max(...order.map((at) => columns.get(at).length)));
  const height = most * (BOX.height + GAP.y) - GAP.y;
  const boxes = [];
  const rests = [];
  order.forEach((at, place) => {
    const all = columns.get(at).sort((a, b) => a.id - b.id);
    const shown = all.length > MOST_IN_COLUMN ? all.slice(0, MOST_IN_COLUMN - 1) : all;
    const places = Math.min(all.length, MOST_IN_COLUMN);
    const top = (height - (places * (BOX.height + GAP.y) - GAP.y)) / 2;
    const x = place * (BOX.width + GAP.x);
    const y = (row) => top + row * (BOX.height + GAP.y);
    shown.forEach((job, row) => boxes.push({ job, x, y: y(row) }));
    if (all.length > shown.length) rests.push({ number: all.length - shown.length, x, y: y(shown.length) });
  });
  const known = new Map(boxes.map((box) => [box.job.id, box]));
  const lines = links.filter(([from, to]) => known.has(from) && known.has(to)).map(([from, to, must]) => {
    const [a, b] = [known.get(from), known.get(to)];
    const [x1, y1, x2, y2] = [a.x + BOX.width, a.y + BOX.height / 2, b.x, b.y + BOX.height / 2];
    const bend = (x2 - x1) / 2;
    return { path: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, must };
  });
  return { width: order.length * (BOX.width + GAP.x) - GAP.x, height, boxes, rests, lines };
}
