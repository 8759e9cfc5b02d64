// Shares the short link.

async function share(button) {
  say(button, "");
  try {
    await navigator.share({ url: document.getElementById(button.dataset.share).textContent });
  } catch (error) {
    if (error.name !== "AbortError") say(button, "The browser refused to share. Copy the short link instead.");
  }
}
