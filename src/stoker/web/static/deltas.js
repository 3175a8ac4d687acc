// Puts into effect what the server says has changed in a long answer: see deltas.py. Nothing of the old one is changed.

export function changed(old, change) {
  if (change === null || change === undefined) return old;
  if ("set" in change) return change.set;
  if ("of" in change) {
    const found = new Map(Object.entries(old));
    for (const name of change.gone) found.delete(name);
    for (const [name, one] of Object.entries(change.of)) {
      found.set(name, changed(Object.hasOwn(old, name) ? old[name] : undefined, one));
    }
    return Object.fromEntries(found);
  }
  const list = old.slice(0, change.length ?? old.length);
  if (change.each) for (const [place, one] of change.each) list[place] = changed(list[place], one);
  else change.at.forEach((place, number) => { list[place] = change.to[number]; });
  return list;
}
