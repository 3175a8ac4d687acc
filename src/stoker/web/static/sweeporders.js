// Orders about a whole sweep: its points that failed, those that have not ended, and more points.

import { ApiError, get } from "./api.js";
import { h, setHidden } from "./dom.js";
import { give, giveMatching } from "./orders.js";

const MOST_POINTS = 100_000;
const FAILED = new Set(["failed", "lost"]);

// trouble: where failures are told; done: what to do afterwards.
export function sweepOrders(name, trouble, done) {
  const button = (words, act, look = "") => h("button", { type: "button", class: look, onclick: async () => {
    trouble.clear();
    try {
      if (await act()) done();
    } catch (error) {
      trouble.show(error);
    }
  } }, words);
  const retry = button("Retry failed", retryFailed);
  const hold = button("Hold", () => giveMatching("hold", { group: name }));
  const release = button("Release", () => giveMatching("release", { group: name }));
  const cancel = button("Cancel the rest", () => giveMatching("cancel", { group: name }), "danger");

  // The latest job of each point: one that failed may have been queued anew as another job.
  async function retryFailed() {
    const { points } = await get("/api/sweep", { name, limit: MOST_POINTS });
    const failed = points.filter((point) => FAILED.has(point.state));
    if (!failed.length) throw new ApiError(409, { message: "none of its points has failed" });
    return give("retry", failed);
  }

  return {
    element: h("div", { class: "buttons write" }, retry, hold, release, cancel,
      h("a", { class: "button", href: `#/submit/sweep?more=${encodeURIComponent(name)}` }, "Add points")),
    show(counts) {
      const some = (...states) => states.some((state) => counts[state]);
      setHidden(retry, !some(...FAILED));
      setHidden(hold, !some("waiting"));
      setHidden(release, !some("held"));
      setHidden(cancel, !some("running", "submitted", "waiting", "held"));
    },
  };
}
