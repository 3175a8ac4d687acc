// What failed of late, by what the logs say: jobs with the same trouble together.

import { get, post } from "./api.js";
import { errorBox, h, keyed, setHidden, setText } from "./dom.js";
import { serverNow } from "./feed.js";
import { count, moment } from "./format.js";
import { logsAddress } from "./sidelogs.js";

const SHOWN_IDS = 8;

export function failuresView() {
  const trouble = errorBox();
  const done = h("p", { class: "done", role: "status" });
  const about = h("p", { class: "dim" });
  const list = h("div", { class: "stack failures" });
  const empty = h("p", { class: "empty card", hidden: true }, "Nothing has failed. ",
    h("a", { href: "#/" }, "To the jobs"));
  const element = h("div", { class: "stack" },
    h("div", { class: "bar" }, h("a", { href: "#/usage", class: "back", "aria-label": "To the usage" }, "←"),
      h("h1", {}, "What failed")),
    trouble.element, done, about, empty, list);
  let closed = false;
  let timer = null;

  async function ask() {
    timer = null;
    try {
      const answer = await get("/api/failures");
      if (closed) return;
      trouble.clear();
      draw(answer);
    } catch (error) {
      if (!closed && error.status) trouble.show(error);
    }
  }

  function draw({ failures, looked_at, total }) {
    setHidden(empty, failures.length > 0);
    const latest = looked_at < total ? `, the latest of ${total.toLocaleString("en")}` : "";
    setText(about, !failures.length ? ""
      : `${count(looked_at, "failed job")}${latest}: ${count(failures.length, "different message")}.`);
    keyed(list, failures, (one) => one.message, card, (element, one) => element.show(one));
  }

  async function retry(one) {
    trouble.clear();
    try {
      const { ids } = await post("/api/jobs/retry", { ids: one.ids });
      setText(done, `${count(ids.length, "job")} queued again.`);
      ask();
    } catch (error) {
      trouble.show(error);
    }
  }

  function card() {
    const number = h("b", { class: "num many" });
    const message = h("code", {});
    const about = h("p", { class: "dim" });
    const links = h("span", { class: "ids num" });
    const logs = h("a", { class: "button small" }, "Logs side by side");
    const again = h("button", { type: "button", class: "small write", onclick: () => retry(element.one) }, "Retry");
    const element = h("section", { class: "card pad failure" }, number,
      h("div", {}, message, about, h("div", { class: "bar" }, links, h("span", { class: "grow" }), logs, again)));
    element.show = (one) => {
      element.one = one;
      const at = serverNow();
      setText(number, `${one.count.toLocaleString("en")}×`);
      setText(message, one.message);
      const when = one.count > 1 ? `${moment(one.first_at_ms, at)} to ${moment(one.last_at_ms, at)}`
        : moment(one.last_at_ms, at);
      setText(about, [one.reasons.join("; "), when, one.groups.length ? `in ${one.groups.join(", ")}` : ""]
        .filter(Boolean).join(" · "));
      const shown = one.ids.slice(0, SHOWN_IDS);
      links.replaceChildren("jobs ", ...shown.flatMap((id, place) =>
        [place ? ", " : "", h("a", { href: `#/job/${id}` }, String(id))]),
      one.count > shown.length ? ` and ${one.count - shown.length} more` : "");
      logs.href = logsAddress(one.ids);
      setHidden(logs, one.ids.length < 2);
      setText(again, one.count > one.ids.length ? `Retry the latest ${one.ids.length}`
        : one.count > 1 ? `Retry all ${one.count}` : "Retry");
    };
    return element;
  }

  return {
    element,
    title: "What failed",
    open: ask,
    close() {
      closed = true;
      clearTimeout(timer);
    },
    hear(change) {
      if ((change.many || change.changed.length) && timer === null) timer = setTimeout(ask, 2000);
    },
  };
}
