// The pages work without scripts. With scripts, they show buttons that copy a short URL.
document.querySelectorAll("[data-copy]").forEach((button) => { button.hidden = false; });
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});
