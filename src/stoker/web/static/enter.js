// The way in: trades the secret of a one-time link (or a token) for a cookie and a secret that
// stays with this page's origin. The secret is in the part of the address that is never sent.

const say = document.getElementById("say");
const form = document.getElementById("form");
const how = document.getElementById("how");

function ask(text, bad) {
  say.textContent = text;
  say.classList.toggle("bad", bad);
  form.hidden = false;
  how.hidden = false;
  document.getElementById("secret").focus();
}

async function enter(secret) {
  let answer;
  try {
    const response = await fetch("/api/enter", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ secret }),
    });
    answer = await response.json();
  } catch {
    ask("The page does not answer.", true);
    return;
  }
  if (answer.error) {
    ask(`${answer.error.message}: ${answer.error.hint}`, true);
    return;
  }
  localStorage.setItem("stoker.page", answer.page);
  location.replace("/");
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("secret");
  enter(field.value.trim().replace(/^.*#/, ""));
});

const secret = location.hash.slice(1);
if (secret) {
  history.replaceState(null, "", "/enter");
  enter(secret);
} else {
  ask("This browser has not been let in yet.", false);
}
