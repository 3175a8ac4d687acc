// Words of the language in which jobs are filtered; the daemon reads it, here some are only put together.

const KEY = (key) => new RegExp(`(^|\\s)${key}:(?:"[^"]*"?|'[^']*'?|\\S)*`, "g");

// A name as a value: in quotes where it has letters that mean something; no letter stands for both quotes.
export function quoted(name) {
  if (/^[^\s,"':]+$/.test(name)) return name;
  if (!name.includes('"')) return `"${name}"`;
  return name.includes("'") ? `"${name.replaceAll('"', "?")}"` : `'${name}'`;
}

// The same filter, for this group only; for none if it is empty.
export function withGroup(text, name) {
  const rest = text.replace(KEY("group"), " ").replace(/\s+/g, " ").trim();
  return [name ? `group:${quoted(name)}` : "", rest].filter(Boolean).join(" ");
}
