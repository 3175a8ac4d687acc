// What to type to get a sweep's points, found from these: to add some, one changes it. Without DOM.

const MOST_VALUES = 50;
const PLAIN = /^[A-Za-z0-9_@%+=:,./-]+$/; // means the same to a shell, in quotes and without

// A value as it is written in a parameter space: text that looks like something else is quoted.
function written(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  if (/^[A-Za-z_/][\w./@-]*$/.test(value) && !/^(true|false|null|none|nan|inf)$/i.test(value)) return value;
  return value.includes('"') ? `'${value}'` : `"${value}"`;
}

// A line for each parameter: its name and all values that points have.
export function spaceOf(points) {
  const values = new Map();
  for (const { params } of points) {
    for (const [name, value] of Object.entries(params)) {
      if (!values.has(name)) values.set(name, new Set());
      values.get(name).add(written(value));
    }
  }
  return [...values].map(([name, found]) => `${name}=${[...found].slice(0, MOST_VALUES).join(",")}`);
}

function says(word, value) {
  return word === String(value) || (typeof value === "number" && word.trim() !== "" && Number(word) === value);
}

// The words of one point's command without its values: those that were appended are left out, the others are places.
export function templateOf(words, params) {
  const rest = [...words];
  const open = new Map(Object.entries(params));
  for (;;) {
    const [flag, value] = rest.slice(-2);
    const name = flag?.startsWith("--") ? flag.slice(2) : null;
    if (rest.length < 4 || !open.has(name) || !says(value, open.get(name))) break;
    open.delete(name);
    rest.length -= 2;
  }
  for (const [name, value] of open) {
    const places = rest.flatMap((word, place) => (place && says(word, value) ? [place] : []));
    if (places.length === 1) rest[places[0]] = `{${name}}`;
  }
  return rest.map((word) => (PLAIN.test(word) || /^\{\S+\}$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))
    .join(" ");
}
