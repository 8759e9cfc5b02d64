// Without this the page reloads itself. With it only what changed is put in place, and
// it says so when the program no longer answers.
"use strict";
const said = document.getElementById("said");

function replace(selector, page) {
  const now = document.querySelector(selector);
  const next = page.querySelector(selector);
  if (!now.isEqualNode(next)) now.replaceWith(next);
}

async function refresh() {
  try {
    const response = await fetch("/", { signal: AbortSignal.timeout(5000) });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    ["#state", "#level", "dl"].forEach((selector) => replace(selector, page));
    document.title = page.title;
    if (said.textContent) said.textContent = "";
  } catch {
    said.textContent = "No answer; what is shown is old.";
  }
  setTimeout(refresh, 1000);
}
setTimeout(refresh, 1000);
