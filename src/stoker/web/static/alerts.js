// What the page says to those who do not look at it: counts in the title of its tab and, if wanted, a
// notification of the browser's when jobs have ended. It asks for the right to that on a click only.

import { setHidden } from "./dom.js";
import { listen, now } from "./feed.js";

const ENDS = ["succeeded", "stopped", "failed", "lost", "skipped", "cancelled"];
const WANTED = "stoker.alerts";
const WORDS = {
  on: "Notifications of this browser: on",
  off: "Notifications of this browser: off",
  blocked: "Notifications of this browser: it does not allow them; see the settings of this site",
};

let view = "";
let seen = null; // how many had ended in each state when the page was last looked at

export function setTitle(words) {
  view = words || "";
  showTitle();
}

function showTitle() {
  const { running = 0, stopping = 0, waiting = 0, submitted = 0, held = 0 } = now.counts;
  const active = running + stopping;
  const queued = waiting + submitted + held;
  const counts = active || queued ? `${active} running · ${queued} waiting` : "";
  document.title = [counts, view, "Stoker"].filter(Boolean).join(" · ");
}

// ---- notifications

const bell = document.getElementById("alerts");

function state() {
  if (Notification.permission === "denied") return "blocked";
  return Notification.permission === "granted" && localStorage.getItem(WANTED) === "on" ? "on" : "off";
}

function showBell() {
  const is = state();
  bell.dataset.state = is;
  bell.title = WORDS[is];
  bell.setAttribute("aria-label", WORDS[is]);
  bell.setAttribute("aria-pressed", String(is === "on"));
}

async function toggle() {
  const wanted = state() !== "on";
  localStorage.setItem(WANTED, wanted ? "on" : "off");
  if (wanted && Notification.permission === "default") await Notification.requestPermission();
  showBell();
}

function tellOfEnds() {
  const ended = Object.fromEntries(ENDS.map((one) => [one, now.counts[one] || 0]));
  const looks = !document.hidden && document.hasFocus();
  // Removed and retried jobs make the counts smaller: what was seen is then counted anew.
  if (!seen || looks || ENDS.some((one) => ended[one] < seen[one])) {
    seen = ended;
    return;
  }
  const news = ENDS.filter((one) => ended[one] > seen[one]).map((one) => `${ended[one] - seen[one]} ${one}`);
  const words = news.join(", ");
  if (!words || words === tellOfEnds.last || state() !== "on") return;
  tellOfEnds.last = words;
  // One for all tabs: a newer one with the same tag takes its place.
  const note = new Notification("Stoker: jobs have ended", { body: words, tag: "stoker-ends", icon: "/icon.svg" });
  note.onclick = () => {
    window.focus();
    note.close();
  };
}

export function startAlerts() {
  const possible = "Notification" in window && window.isSecureContext;
  setHidden(bell, !possible);
  if (possible) {
    bell.addEventListener("click", toggle);
    showBell();
  }
  listen(() => {
    if (now.link !== "live") return;
    showTitle();
    if (possible) tellOfEnds();
  });
}
