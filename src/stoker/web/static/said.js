// What the server says, in the words of the page: options by the labels of their fields. Without DOM.

const OPTION = /--([a-z]+(?:-[a-z]+)*)(?: (auto|whole|local|slurm|\d[\w.%,]*))?/g;

const LABELS = { cwd: "Directory", mem: "GPU memory", where: "Only where" };

export function label(key) {
  if (key in LABELS) return LABELS[key];
  const words = key.replaceAll("_", " ").replace(/\b[cg]pu|\bmps\b/g, (word) => word.toUpperCase());
  return words[0].toUpperCase() + words.slice(1);
}

// “Time limit: 2h” for --time-limit 2h. What is in backticks is to be typed in a terminal, and stays as it is.
export function inPageWords(text, keys) {
  const known = new Set(keys);
  const parts = text.split("`");
  for (let place = 0; place < parts.length; place += 2) {
    parts[place] = parts[place].replace(OPTION, (found, name, value) => {
      const key = name.replaceAll("-", "_");
      if (!known.has(key)) return found;
      return value === undefined ? `“${label(key)}”` : `“${label(key)}: ${value}”`;
    });
  }
  return parts.join("`");
}

// An error with the field that it is about, if that is known, and without the name of that in front.
export function saidOfField(error, keys) {
  const prefix = error.option && `${error.option}: `;
  const message = prefix && error.message.startsWith(prefix) ? error.message.slice(prefix.length) : error.message;
  const field = error.option || firstNamed(message, keys);
  return { field, message: inPageWords(message, keys), hint: inPageWords(error.hint || "", keys) };
}

function firstNamed(text, keys) {
  for (const [, name] of text.split("`")[0].matchAll(OPTION)) {
    const key = name.replaceAll("-", "_");
    if (keys.includes(key)) return key;
  }
  return "";
}
