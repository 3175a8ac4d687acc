// The address says what a view shows, and the browser's history where one had scrolled to: back, a reload and a link
// that was sent return to the very place.

const SCROLL_NOTED_MS = 200;
const RESTORED_WITHIN_MS = 3000; // A view is as tall as it was only when its jobs have come.

export function pathOf(address = location.hash) {
  return address.replace(/^[^#]*#?\/?/, "").split("?")[0];
}

// Only what differs from how the view is at first; that is not said.
export function keepInAddress(values) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") words.set(name, value);
  }
  const query = words.toString();
  const wanted = `#/${pathOf()}${query ? `?${query}` : ""}`;
  const same = wanted === location.hash || (wanted === "#/" && !location.hash);
  history.replaceState({ ...history.state, known: true }, "", same ? undefined : wanted);
}

// Whether the address is to be taken as it is, though it says nothing: one was here before.
export function isKnown() {
  return Boolean(history.state?.known);
}

// ---- scrolling

let waiting = null;
let giveUp = null;

function note() {
  clearTimeout(waiting);
  waiting = null;
  if (!giveUp) history.replaceState({ ...history.state, scroll: Math.round(scrollY) }, "");
}

// To where one had scrolled when one was here before, once the view is as tall again; at the top if it is new.
export function scrollBack() {
  const wanted = history.state?.scroll ?? 0;
  giveUp?.();
  clearTimeout(waiting);
  waiting = null;
  scrollTo(0, 0);
  if (wanted) hold(() => wanted, { once: true });
}

// What a link leads to stays in the middle of the window while what is above it still grows.
export function holdInView(element) {
  giveUp?.();
  hold(() => {
    const box = element.getBoundingClientRect();
    return Math.max(0, scrollY + box.top - Math.max(0, innerHeight - box.height) / 2);
  });
}

function hold(place, { once = false } = {}) {
  const until = performance.now() + RESTORED_WITHIN_MS;
  const stops = ["wheel", "touchstart", "pointerdown", "keydown"];
  const stop = () => {
    if (giveUp === stop) giveUp = null;
    for (const name of stops) removeEventListener(name, stop);
  };
  giveUp = stop;
  for (const name of stops) addEventListener(name, stop, { passive: true });
  const step = () => {
    if (giveUp !== stop) return;
    const wanted = Math.round(place());
    scrollTo(0, wanted);
    if ((once && Math.abs(scrollY - wanted) < 2) || performance.now() > until) stop();
    else requestAnimationFrame(step);
  };
  step();
}

export function startAddress() {
  history.scrollRestoration = "manual";
  addEventListener("scroll", () => {
    waiting ??= setTimeout(note, SCROLL_NOTED_MS);
  }, { passive: true });
  // What leads away comes at once.
  for (const name of ["click", "keydown", "pagehide"]) {
    addEventListener(name, () => waiting !== null && note(), { capture: true });
  }
}
