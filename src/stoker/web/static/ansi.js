// The colours of terminals as spans with text in them. Every other escape is left out.

const ESCAPE = new RegExp([
  /\u001b\[([0-9;:]*)m/, // a style
  /\u001b\[[0-?]*[ -/]*[@-~]/,
  /\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?/,
  /\u001b[PX^_][^\u001b]*(?:\u001b\\)?/,
  /\u001b[ -/]*[0-~]?/,
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/,
].map((one) => one.source).join("|"), "g");

export const PLAIN = Object.freeze({ bold: false, dim: false, italic: false, under: false, strike: false,
  turned: false, fore: null, back: null });

function colourOf(codes) {
  // After 38 or 48: 5;n of a table of 256, or 2;r;g;b.
  const kind = codes.shift();
  if (kind === 5) {
    const n = codes.shift() ?? 0;
    if (n < 16) return n;
    if (n < 232) {
      const level = (v) => (v ? 55 + v * 40 : 0);
      const m = n - 16;
      return `rgb(${level(Math.floor(m / 36))} ${level(Math.floor(m / 6) % 6)} ${level(m % 6)})`;
    }
    const grey = 8 + (Math.min(n, 255) - 232) * 10;
    return `rgb(${grey} ${grey} ${grey})`;
  }
  if (kind === 2) {
    const [r, g, b] = [codes.shift(), codes.shift(), codes.shift()].map((v) => Math.max(0, Math.min(255, v || 0)));
    return `rgb(${r} ${g} ${b})`;
  }
  return null;
}

function turned(style, text) {
  const codes = text === "" ? [0] : text.split(/[;:]/).map((one) => Number(one || 0));
  let next = style;
  while (codes.length) {
    const code = codes.shift();
    if (code === 0) next = PLAIN;
    else if (code === 1) next = { ...next, bold: true };
    else if (code === 2) next = { ...next, dim: true };
    else if (code === 3) next = { ...next, italic: true };
    else if (code === 4) next = { ...next, under: true };
    else if (code === 7) next = { ...next, turned: true };
    else if (code === 9) next = { ...next, strike: true };
    else if (code === 22) next = { ...next, bold: false, dim: false };
    else if (code === 23) next = { ...next, italic: false };
    else if (code === 24) next = { ...next, under: false };
    else if (code === 27) next = { ...next, turned: false };
    else if (code === 29) next = { ...next, strike: false };
    else if (code >= 30 && code <= 37) next = { ...next, fore: code - 30 };
    else if (code === 38) next = { ...next, fore: colourOf(codes) };
    else if (code === 39) next = { ...next, fore: null };
    else if (code >= 40 && code <= 47) next = { ...next, back: code - 40 };
    else if (code === 48) next = { ...next, back: colourOf(codes) };
    else if (code === 49) next = { ...next, back: null };
    else if (code >= 90 && code <= 97) next = { ...next, fore: code - 82 };
    else if (code >= 100 && code <= 107) next = { ...next, back: code - 92 };
  }
  return next;
}

// The pieces of a line, each with its style; and the style that the next line begins with.
export function pieces(text, style = PLAIN) {
  const found = [];
  let at = 0;
  for (const match of text.matchAll(ESCAPE)) {
    if (match.index > at) found.push([text.slice(at, match.index), style]);
    if (match[1] !== undefined) style = turned(style, match[1]);
    at = match.index + match[0].length;
  }
  if (at < text.length) found.push([text.slice(at), style]);
  return [found, style];
}

export function plainText(text) {
  return text.replace(ESCAPE, "");
}

export function span(text, style) {
  if (style === PLAIN) return document.createTextNode(text);
  const element = document.createElement("span");
  element.textContent = text;
  const [fore, back] = style.turned ? [style.back ?? "back", style.fore ?? "fore"] : [style.fore, style.back];
  for (const name of ["bold", "dim", "italic", "under", "strike"]) if (style[name]) element.classList.add(`a-${name}`);
  paint(element, "f", "color", fore);
  paint(element, "b", "background-color", back);
  return element;
}

function paint(element, letter, property, colour) {
  if (colour === null || colour === undefined) return;
  if (typeof colour === "number") element.classList.add(`a-${letter}${colour}`);
  else if (colour === "fore" || colour === "back") element.classList.add(`a-${letter}-${colour}`);
  else element.style.setProperty(property, colour);
}
