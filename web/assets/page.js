// The page works without scripts. With scripts, a person creates a link without leaving the
// page. The server renders the same answer, and the script replaces the main part of the
// page.
"use strict";
const $ = (selector) => document.querySelector(selector);

function ready() {
  document.querySelectorAll("form").forEach((form) => { form.noValidate = true; });
  document.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });
  const next = $("[data-focus]");
  next?.focus();
  next?.select?.();
}

async function shorten(form) {
  if (form.ariaBusy === "true") return;
  form.ariaBusy = "true";
  try {
    const response = await fetch(form.action, {
      method: "POST", headers: { Accept: "text/html" }, body: new URLSearchParams(new FormData(form)),
    });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const main = page.querySelector("main");
    if (!response.ok) { // the server returns an empty field if its value was too long
      for (const [name, value] of new FormData(form)) main.querySelector(`[name="${name}"]`).value = value;
    }
    $("main").replaceChildren(...main.childNodes);
    $("#said").textContent = "";
    document.title = page.title;
    ready();
  } catch {
    $("#form-error").textContent = "The server does not answer. Your input is still here: try again.";
  } finally {
    form.ariaBusy = "false";
  }
}

async function copy(button) {
  const field = document.getElementById(button.dataset.copy);
  $("#said").textContent = ""; // a screen reader announces only changes
  field.select();
  try {
    // The clipboard API needs HTTPS or localhost.
    if (navigator.clipboard) await navigator.clipboard.writeText(field.value);
    else if (!document.execCommand("copy")) throw new Error("refused");
    button.textContent = "Copied";
    $("#said").textContent = "The short link is on the clipboard.";
  } catch {
    $("#said").textContent = "The browser refused to copy. The short link is selected.";
  }
}

document.addEventListener("submit", (event) => {
  event.preventDefault();
  shorten(event.target);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});
ready();
