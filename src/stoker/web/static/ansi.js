// The colours of terminals as spans with text in them. Every other escape is left out.

const ESCAPE = new RegExp([
  /\u001b\[([0-9;:]*)m/, // colours, and how text looks
  /\u001b\[[0-?]*[ -/]*[@-~]/, // other orders to a terminal
  /\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?/, // titles, links
  /\u001b[PX^_][^\u001b]*(?:\u001b\\)?/, // strings to a device
  /\u001b[ -/]*[0-~]?/, // short ones, and what is left of others
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/, // control characters
].map((one) => one.source).join("|"), "g");

export const PLAIN = Object.freeze({ bold: false, dim: false, italic: false, under: false, strike: false, turned: false,
  fore: null, back: null });

function colourOf(codes) {
  // After 38 or 48: 5;n of a table of 256, or 2;r;g;b.
  const kind = codes.shift();
  if (kind === 5) {
    const n = codes.shift() ?? 0;
    if (n < 16) return n;
    if (n < 232) {
      const level = (v) => (v ? 55 + v * 40 : 0);
      const m = n - 16;
      return [level(Math.floor(m / 36)), level(Math.floor(m / 6) % 6), level(m % 6)];
    }
    const grey = 8 + (Math.min(n, 255) - 232) * 10;
    return [grey, grey, grey];
  }
  if (kind === 2) {
    return [codes.shift(), codes.shift(), codes.shift()].map((v) => Math.max(0, Math.min(255, v || 0)));
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
  paint(element, "b", back, colourText(back));
  paint(element, "f", fore, foreText(fore, back));
  return element;
}

function paint(element, letter, colour, words) {
  if (colour === "fore" || colour === "back" || (typeof colour === "number" && words === null)) {
    element.classList.add(`a-${letter}${typeof colour === "number" ? "" : "-"}${colour}`);
  } else if (words !== null) element.style.setProperty(letter === "f" ? "color" : "background-color", words);
}

// ---- colours that can be read in the light and in the dark

const READABLE = 4.5; // times as light as what is behind, or as dark
const PAPER = { light: [251, 252, 253], dark: [14, 18, 22] };

function brightness(rgb) {
  const [r, g, b] = rgb.map((v) => (v <= 10 ? v / 3295 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(one, other) {
  const [low, high] = [brightness(one), brightness(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

// The colour, or as little lighter or darker as lets it be read on what is behind it.
export function readable(rgb, behind) {
  const goal = contrast([255, 255, 255], behind) > contrast([0, 0, 0], behind) ? 255 : 0;
  for (let part = 0; part < 1; part += 0.05) {
    const mixed = rgb.map((v) => Math.round(v + (goal - v) * part));
    if (contrast(mixed, behind) >= READABLE) return mixed;
  }
  return [goal, goal, goal];
}

function colourText(rgb) {
  return Array.isArray(rgb) ? `rgb(${rgb.join(" ")})` : null;
}

// What letters are painted with; null if a class of the page says it.
function foreText(fore, back) {
  if (Array.isArray(back)) return colourText(readable(Array.isArray(fore) ? fore : [128, 128, 128], back));
  if (!Array.isArray(fore)) return null;
  if (back !== null) return "inherit"; // One of the page's own backgrounds, which its text is meant for.
  return `light-dark(${colourText(readable(fore, PAPER.light))}, ${colourText(readable(fore, PAPER.dark))})`;
}
