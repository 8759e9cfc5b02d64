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
    if (!response.ok) for (const name of new FormData(form).keys()) keep(form.elements[name], main.querySelector(`[name="${name}"]`));
    $("main").replaceChildren(...main.childNodes);
    document.title = page.title;
    ready();
  } catch {
    $("#form-error").textContent = "The server does not answer. Your input is still here: try again.";
  } finally {
    form.ariaBusy = "false";
  }
}

// keep copies the value of a field of the old form into the new form if the new field is empty. The server returns an
// empty field if the value was too long, or if it refused the request before it read the form.
function keep(old, field) {
  if (!old || !field) return; // the new page has no form
  const { value } = old;
  if (field.value || !value) return;
  if (field.options && ![...field.options].some((option) => option.value === value)) field.append(...old.selectedOptions);
  field.value = value;
  field.closest("details")?.setAttribute("open", "");
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
