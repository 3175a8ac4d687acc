// The page: which view is shown, what all views share, and the keys.

import { pathOf, scrollBack, startAddress } from "./address.js";
import { clear, h, hideTip, setHidden, setText } from "./dom.js";
import { listen, now, start } from "./feed.js";
import { nowView } from "./now.js";
import { timelineView } from "./timeline.js";
import { compareView } from "./compare.js";
import { jobView } from "./job.js";
import { sweepsView, sweepView } from "./sweep.js";
import { diskView } from "./disk.js";
import { failuresView } from "./failures.js";
import { groupsView } from "./groups.js";
import { showSavedViews } from "./savedviews.js";
import { sideLogsView } from "./sidelogs.js";
import { usageView } from "./usage.js";
import { submitView } from "./submit.js";
import { get } from "./api.js";
import { setTitle, startAlerts } from "./alerts.js";

export const me = { user: "", directory: "", read_only: false, version: "" };

const ROUTES = [
  [/^$/, "now", (query) => nowView(query)],
  [/^timeline$/, "timeline", (query) => timelineView(query)],
  [/^job\/([0-9]+)$/, "now", (id, query) => jobView(Number(id), query)],
  [/^compare\/([0-9,]+)$/, "now", (ids, query) => compareView(ids, query)],
  [/^sweeps$/, "sweeps", () => sweepsView()],
  [/^sweep\/(.+)$/, "sweeps", (name) => sweepView(name)],
  [/^disk$/, "disk", () => diskView()],
  [/^groups$/, "groups", () => groupsView()],
  [/^usage$/, "usage", (query) => usageView(query)],
  [/^failures$/, "usage", () => failuresView()],
  [/^logs\/([0-9,]+)$/, "now", (ids) => sideLogsView(ids)],
  [/^submit(?:\/([a-z]+))?$/, "submit", (tab, query) => submitView(tab || "job", query, me)],
];

const main = document.getElementById("main");

// The parts of an address; null if it can't be one.
function wordsOf(found) {
  try {
    return found.slice(1).map((word) => (word === undefined ? word : decodeURIComponent(word)));
  } catch {
    return null;
  }
}

function nowhere() {
  for (const link of document.querySelectorAll("#nav a")) link.removeAttribute("aria-current");
  const places = [["#/", "To the jobs"], ["#/sweeps", "To the sweeps"], ["#/submit", "Submit a job"]];
  return h("section", { class: "card pad stack" }, h("h1", {}, "There is nothing here."),
    h("p", {}, "No view has the address ", h("code", {}, location.hash || "/"), "."),
    h("p", {}, ...places.flatMap(([href, words], at) => [at ? " · " : "", h("a", { href }, words)])));
}

let view = null;

function show() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const known = ROUTES.find(([pattern]) => pattern.test(path));
  if (view) view.close();
  hideTip();
  clear(main);
  const words = known ? wordsOf(known[0].exec(path)) : null;
  if (!words) {
    view = null;
    setTitle("Nothing here");
    main.append(nowhere());
    return;
  }
  const [, name, make] = known;
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.view === name) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "nearest" });
    } else link.removeAttribute("aria-current");
  }
  view = make(...words, new URLSearchParams(query || ""));
  setTitle(view.title);
  main.append(view.element);
  view.open?.();
  scrollBack();
}

// ---- the connection

const link = document.getElementById("link");
const notice = document.getElementById("notice");
const noticeText = h("span", {});
const noticeLink = h("a", { href: "#/disk" }, " What takes room");
notice.append(noticeText);
const LONG_LOST_MS = 4000; // A daemon that was restarted is back by then.
let longLost = null;
const LINK_WORDS = { waiting: "connecting", live: "live", lost: "connection lost", refused: "not let in" };

function showLink() {
  link.dataset.state = now.link === "refused" ? "lost" : now.link;
  setText(link, LINK_WORDS[now.link]);
  if (now.link !== "lost") {
    clearTimeout(longLost);
    longLost = null;
  } else if (longLost === null) {
    longLost = setTimeout(() => {
      longLost = true;
      showLink();
    }, LONG_LOST_MS);
  }
  document.body.classList.toggle("lost", now.link !== "live");
  const words = {
    lost: longLost === true
      ? "Stoker does not answer. On its machine, run `stoker daemon start`: this page then comes back by itself. Jobs "
        + "that run are not harmed. What is shown may be old."
      : "The connection to Stoker is lost. What is shown may be old; it is tried again by itself.",
    refused: "This browser is not let in any more. Run `stoker web` and open the address that it prints.",
  }[now.link];
  const short = now.short ? `Jobs can't be started: ${now.short}. It is tried again by itself.` : "";
  const trouble = short || now.disk || "";
  setHidden(notice, !words && !now.paused && !trouble);
  notice.classList.toggle("bad", Boolean(words));
  setText(noticeText, words || (now.paused ? "The queue is paused: nothing new starts." : trouble));
  if (words || now.paused || !now.disk) noticeLink.remove();
  else if (!noticeLink.isConnected) notice.append(noticeLink);
}

listen((change) => {
  showLink();
  view?.hear?.(change);
});

// A tab that was hidden has not looked either.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) view?.hear?.({ changed: [], many: true, link: false });
});

// ---- light and dark

const THEMES = { auto: "light", light: "dark", dark: "auto" };
const themeButton = document.getElementById("theme");

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.dataset.theme = theme;
  themeButton.setAttribute("aria-label", `Colours: ${theme}`);
  setText(themeButton, { auto: "◐", light: "☀", dark: "☾" }[theme]);
}

themeButton.addEventListener("click", () => {
  const theme = THEMES[themeButton.dataset.theme] || "auto";
  localStorage.setItem("stoker.theme", theme);
  setTheme(theme);
});
setTheme(localStorage.getItem("stoker.theme") || "auto");

// ---- keys

const KEYS = [
  ["1 2 3 4 5 6 7", "Now, Timeline, Sweeps, Submit, Disk, Groups, Usage"],
  ["/", "filter the list, or search in the log"],
  ["j k ↓ ↑", "go through the list"],
  ["Enter", "open the job"],
  ["Space", "choose the job; with Shift all up to it"],
  ["a", "choose all that match, or none"],
  ["c r h l", "cancel, retry, hold or release, to the log"],
  ["+ −", "sooner, later (priority)"],
  ["n", "a new job"],
  ["Esc", "back"],
  ["?", "these keys"],
];

function showKeys() {
  const dialog = h("dialog", { "aria-label": "Keys", class: "keys" },
    h("h2", {}, "Keys"),
    h("table", { class: "plain" }, ...KEYS.map(([keys, words]) =>
      h("tr", {}, h("td", {}, ...keys.split(" ").flatMap((key) => [h("kbd", {}, key), " "])), h("td", {}, words)))),
    h("p", { class: "dim" }, `Stoker ${me.version}`, me.user ? `, jobs of ${me.user}` : "",
      me.read_only ? ", read-only" : ""),
    h("div", { class: "buttons" },
      h("button", { type: "button", class: "main", onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

document.getElementById("views").addEventListener("click", () => showSavedViews(view?.title || "Now"));
document.getElementById("help").addEventListener("click", showKeys);

const PLACES = { 1: "#/", 2: "#/timeline", 3: "#/sweeps", 4: "#/submit", 5: "#/disk", 6: "#/groups", 7: "#/usage",
  n: "#/submit" };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const field = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  // These press what has the focus.
  if ((event.key === "Enter" || event.key === " ") && event.target.closest("a, button, summary, input")) return;
  if (event.key === "?") showKeys();
  else if (event.key in PLACES) location.hash = PLACES[event.key];
  else if (event.key === "Escape" && pathOf()) toList();
  else if (!view?.key?.(event)) return;
  event.preventDefault();
});

// Back to the list as it was left, if one came from there.
let fromList = false;

function toList() {
  if (fromList) history.back();
  else location.hash = "#/";
}

addEventListener("hashchange", (event) => {
  fromList = pathOf(event.oldURL) === "";
  show();
  // What is read aloud, and where Tab goes on, is the new view; a form has put the focus into its first field.
  if (!main.contains(document.activeElement)) main.focus({ preventScroll: true });
});

document.querySelector("a.skip").addEventListener("click", (event) => {
  event.preventDefault(); // Addresses are those of views.
  main.focus();
});

document.addEventListener("click", (event) => {
  if (!event.target.closest("a.back") || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  toList();
});

async function begin() {
  try {
    Object.assign(me, await get("/api/me"));
  } catch (error) {
    if (error.status === 401) {
      now.link = "refused";
      showLink();
    }
  }
  document.body.classList.toggle("read-only", me.read_only);
  startAlerts();
  startAddress();
  start();
  show();
}

begin();
