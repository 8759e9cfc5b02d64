// The pages work without scripts. With scripts, a person copies a link with one click.
document.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});
