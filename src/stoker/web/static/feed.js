// What is going on, live, for every view. A browser allows few connections to one server, so of all
// tabs one listens to the server and tells the others.

import { events } from "./api.js";

const LOST_AFTER_MS = 40_000; // the server says something every 15 s, if only that it is there
const AGAIN_MS = [500, 1000, 2000, 3000];

export const now = {
  link: "waiting", // waiting, live, lost, refused
  version: 0,
  counts: {},
  gpus: [],
  active: [],
  cpus: { total: 0, used: 0 },
  paused: false,
  paused_groups: [],
  short: null, // what the machine has not enough of to start jobs
  disk: null, // that a disk has little room left, while jobs still start
  offset_ms: 0, // of the server's clock
};

const listeners = new Set();
const channel = "BroadcastChannel" in window ? new BroadcastChannel("stoker") : null;

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function serverNow() {
  return Date.now() + now.offset_ms;
}

function tell(change) {
  for (const listener of [...listeners]) listener(change);
}

function take(line) {
  const { changed = [], many = false, at_ms, lost, ...rest } = line;
  if (lost) {
    setLink("lost");
    return;
  }
  Object.assign(now, rest);
  if (at_ms) now.offset_ms = at_ms - Date.now();
  const back = now.link !== "live";
  now.link = "live";
  tell({ changed, many: many || back, link: back });
}

function setLink(link) {
  if (now.link === link) return;
  now.link = link;
  tell({ changed: [], many: false, link: true });
}

// ---- the one that listens

let leading = false;

async function lead() {
  leading = true;
  let tries = 0;
  for (;;) {
    const control = new AbortController();
    let heardAt = performance.now();
    const watch = setInterval(() => {
      if (performance.now() - heardAt > LOST_AFTER_MS) control.abort();
    }, 5000);
    try {
      await events((line) => {
        heardAt = performance.now();
        if (!line) return;
        tries = 0;
        pass({ line });
      }, control.signal);
    } catch (error) {
      if (error.status === 401) pass({ link: "refused" });
    }
    clearInterval(watch);
    if (now.link !== "refused") pass({ link: "lost" });
    await new Promise((done) => setTimeout(done, AGAIN_MS[Math.min(tries++, AGAIN_MS.length - 1)]));
  }
}

function pass(message) {
  hear(message);
  if (channel) channel.postMessage(message);
}

function hear(message) {
  if (message.line) take(message.line);
  else if (message.link) setLink(message.link);
}

if (channel) {
  channel.onmessage = ({ data }) => {
    if (data.hello) {
      if (leading && now.link === "live") channel.postMessage({ line: { ...picture(), many: true } });
    } else hear(data);
  };
}

function picture() {
  const { link, offset_ms, ...rest } = now;
  return { ...rest, at_ms: Date.now() + offset_ms };
}

export function start() {
  if (navigator.locks && channel) {
    channel.postMessage({ hello: true });
    navigator.locks.request("stoker-feed", lead);
  } else {
    lead();
  }
}
