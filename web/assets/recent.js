// The list of recent links is in the storage of the browser and never leaves the browser. If
// the browser has no storage, the list stays hidden.
"use strict";
const recentKey = "keypool.recent";
const recentMost = 10;

function recentLinks() {
  try {
    const links = JSON.parse(localStorage.getItem(recentKey) ?? "[]");
    return Array.isArray(links) ? links.filter(isCurrent) : [];
  } catch { // no storage, or another program wrote the item
    return [];
  }
}

function isCurrent(link) {
  return typeof link?.url === "string" && /^https?:\/\//.test(link.short) && !(Date.parse(link.expires) <= Date.now());
}

function storeRecent(links) {
  try {
    localStorage.setItem(recentKey, JSON.stringify(links));
  } catch { /* no storage, or it is full: the list stays as it is */ }
}

// remember adds the link that the page shows as created.
function remember() {
  const created = document.querySelector("#short[data-url]");
  if (!created) return;
  const link = { short: created.textContent, url: created.dataset.url, expires: created.dataset.expires };
  storeRecent([link, ...recentLinks().filter((other) => other.short !== link.short)].slice(0, recentMost));
}

function showRecent() {
  const section = document.querySelector("#recent");
  if (!section) return;
  const links = recentLinks();
  section.hidden = links.length === 0;
  section.querySelector("ul").replaceChildren(...links.map((link) => {
    const item = document.createElement("li");
    const short = document.createElement("a");
    short.href = link.short;
    const code = document.createElement("span"); // a line does not break in the code, as in the result
    code.className = "whole";
    code.textContent = link.short.slice(link.short.lastIndexOf("/") + 1);
    short.append(link.short.slice(0, -code.textContent.length), code);
    const url = document.createElement("span");
    url.textContent = link.url;
    item.append(short, " ", url);
    return item;
  }));
}

function clearRecent() {
  try {
    localStorage.removeItem(recentKey);
  } catch { /* no storage, so there is no list */ }
  showRecent();
}
