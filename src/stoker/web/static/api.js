// Questions and orders to the server.

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message || "something went wrong");
    this.status = status;
    this.code = error.code || "failed";
    this.hint = error.hint || "";
    this.option = error.option || ""; // of a job, that it is about
  }
}

function headers(more) {
  return { "x-stoker-page": localStorage.getItem("stoker.page") || "", ...more };
}

async function answered(response) {
  let answer = {};
  try {
    answer = await response.json();
  } catch {
    answer = { error: { message: `the answer can't be understood (${response.status})` } };
  }
  if (!response.ok) throw new ApiError(response.status, answer.error || {});
  return answer;
}

const unreachable = () =>
  new ApiError(0, { code: "unreachable", message: "the server does not answer", hint: "It is tried again by itself" });

export async function get(path, query = {}, { signal } = {}) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) words.append(name, one);
  }
  const text = words.toString();
  let response;
  try {
    response = await fetch(text ? `${path}?${text}` : path, { headers: headers(), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
  return answered(response);
}

export async function post(path, body = {}) {
  let response;
  try {
    response = await fetch(path, {
      method: "POST",
      headers: headers({ "content-type": "application/json" }),
      body: JSON.stringify(body),
    });
  } catch {
    throw unreachable();
  }
  return answered(response);
}

// Server-sent events, read by hand: the browser's own reader can't send the header that says who
// we are. Ends when the stream does.
export async function events(heard, signal) {
  const response = await fetch("/api/events", { headers: headers(), signal });
  if (!response.ok) return answered(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return undefined;
    rest += value;
    heard(null);
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data: "));
      if (data.length) heard(JSON.parse(data.map((line) => line.slice(6)).join("\n")));
    }
  }
}
