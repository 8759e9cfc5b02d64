// Copies and shares the short link. The message about the result appears beside the buttons.

function say(text) { document.querySelector("#said").textContent = text; }

async function copy(button) {
  const link = document.getElementById(button.dataset.copy);
  say(""); // a screen reader announces only changes
  getSelection().selectAllChildren(link);
  say(await copied(link.textContent) ? "Copied." : "The browser refused to copy. The short link is selected: copy it yourself.");
}

// copied reports whether the browser copied the text. The clipboard API needs HTTPS or localhost.
// Without it, the browser copies the selection.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return document.execCommand("copy");
  }
}

async function share(button) {
  say("");
  try {
    await navigator.share({ url: document.getElementById(button.dataset.share).textContent });
  } catch (error) {
    if (error.name !== "AbortError") say("The browser refused to share. Copy the short link instead.");
  }
}
