// Copies a text of the page. The message about the result appears in the status element beside the button.

function say(button, text) { button.parentElement.querySelector('[role="status"]').textContent = text; }

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  say(button, ""); // a screen reader announces only changes
  getSelection().selectAllChildren(source);
  say(button, await copied(source.textContent) ? "Copied." : "The browser refused to copy. The short link is selected: copy it yourself.");
}

// copied reports whether the browser copied the text. The clipboard API needs HTTPS or localhost.
// Without the clipboard API, the browser copies the selection.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return document.execCommand("copy");
  }
}
