// The page works without this. With it a link is made without leaving the page: the
// server renders the very same answer, and only the main part of it is put in place.
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
    if (!response.ok) { // what was too much to be read comes back empty
      for (const [name, value] of new FormData(form)) main.querySelector(`[name="${name}"]`).value = value;
    }
    $("main").replaceChildren(...main.childNodes);
    $("#said").textContent = "";
    document.title = page.title;
    ready();
  } catch {
    $("#form-error").textContent = "The server did not answer. Nothing was lost; please try again.";
  } finally {
    form.ariaBusy = "false";
  }
}

async function copy(button) {
  const field = document.getElementById(button.dataset.copy);
  $("#said").textContent = ""; // the same words again would be announced to nobody
  field.select();
  try {
    // Away from HTTPS and localhost there is no clipboard, only the old way.
    if (navigator.clipboard) await navigator.clipboard.writeText(field.value);
    else if (!document.execCommand("copy")) throw new Error("refused");
    button.textContent = "Copied";
    $("#said").textContent = "The short link is on the clipboard.";
  } catch {
    $("#said").textContent = "Copying was refused; the short link is selected instead.";
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
