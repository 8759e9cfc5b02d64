// The page works without scripts. With scripts, a person creates a link without leaving the
// page. The server renders the same answer, and the script replaces the main part of the
// page.
const $ = (selector) => document.querySelector(selector);

function ready() {
  document.querySelectorAll("form").forEach((form) => { form.noValidate = true; });
  document.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });
  document.querySelectorAll("[data-share]").forEach((button) => { button.hidden = !navigator.share; });
  remember();
  showRecent();
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
      for (const [name, value] of new FormData(form)) main.querySelector(`[name="${name}"]`).value ||= value;
    }
    $("main").replaceChildren(...main.childNodes);
    document.title = page.title;
    ready();
  } catch {
    $("#form-error").textContent = "The server does not answer. Your input is still here: try again.";
  } finally {
    form.ariaBusy = "false";
  }
}

// fill puts a suggestion into its field.
function fill(suggestion) {
  const field = document.getElementById(suggestion.dataset.fill);
  field.value = suggestion.dataset.value;
  field.removeAttribute("aria-invalid");
  document.getElementById(`${field.id}-error`)?.remove();
  field.focus();
}

document.addEventListener("submit", (event) => {
  event.preventDefault();
  shorten(event.target);
});
document.addEventListener("click", (event) => {
  const target = event.target.closest("[data-copy], [data-share], [data-clear], [data-fill], [data-bookmarklet]");
  if (!target) return;
  event.preventDefault();
  if ("copy" in target.dataset) copy(target);
  if ("share" in target.dataset) share(target);
  if ("clear" in target.dataset) clearRecent();
  if ("fill" in target.dataset) fill(target);
  if ("bookmarklet" in target.dataset) $("#bookmarklet-said").textContent = "Drag this link. A click here has no effect.";
});
ready();
