// The live part: times in the reader's zone, and the page's content again whenever something has changed.
"use strict";

const main = document.getElementById("content");
const live = document.getElementById("live");
const UNITS = [["d", 86400], ["h", 3600], ["m", 60]];
let stream = null;
let isLoading = false;
let isDue = false;

function age(seconds) {
  const found = UNITS.find(([, size]) => seconds >= size);
  return found ? `${Math.floor(seconds / found[1])} ${found[0]}` : "now";
}

function showTimes(part) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.textContent = "age" in time.dataset ? age((Date.now() - at.getTime()) / 1000) : at.toLocaleString();
  }
}

// Make one element like another: what is equal stays, with its scroll position, focus and open folds.
function morph(old, next) {
  if (old.isEqualNode(next)) return;
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || old.id !== next.id) {
    old.replaceWith(next);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = next.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  // Children with an id are found by it, so that what comes or goes before them does not replace or move them.
  const wanteds = [...next.childNodes];
  const kept = new Set(wanteds.map((one) => one.id).filter(Boolean));
  const known = new Map([...old.children].filter((one) => kept.has(one.id)).map((one) => [one.id, one]));
  let here = old.firstChild;
  for (const wanted of wanteds) {
    const found = known.get(wanted.id);
    while (here && here !== found && (found ? !kept.has(here.id) : here.id && !kept.has(here.id))) here = remove(here);
    if (found) {
      if (found === here) here = here.nextSibling;
      else old.insertBefore(found, here);
      morph(found, wanted);
    } else if (here && !here.id && !wanted.id) {
      const after = here.nextSibling;
      morph(here, wanted);
      here = after;
    } else {
      old.insertBefore(wanted, here);
    }
  }
  while (here) here = remove(here);
}

function remove(node) {
  const after = node.nextSibling;
  node.remove();
  return after;
}

async function refresh() {
  if (isLoading) {
    isDue = true;
    return;
  }
  isLoading = true;
  let said = "";
  try {
    do {
      isDue = false;
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("content");
      if (!next) throw new Error(answer.statusText);
      if (answer.status === 503) {
        said = `not connected: ${next.querySelector("p").textContent}`;
        continue;
      }
      said = "live";
      showTimes(next);
      const focused = document.activeElement;
      morph(main, document.adoptNode(next));
      if (focused !== document.activeElement) focused?.focus({ preventScroll: true }); // a row that was moved has lost it
    } while (isDue);
    live.textContent = said;
  } catch {
    live.textContent = "not connected";
  } finally {
    isLoading = false;
  }
}

function listen() {
  if (document.hidden) {
    stream?.close();
    stream = null;
    return;
  }
  if (stream) return;
  stream = new EventSource("/changes");
  stream.onmessage = refresh;
  stream.onopen = refresh;
  stream.onerror = () => { live.textContent = "not connected"; };
}

document.addEventListener("visibilitychange", listen);
document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-copy]");
  if (!link || !navigator.clipboard) return;
  event.preventDefault();
  await navigator.clipboard.writeText(await (await fetch(link.href)).text());
  live.textContent = "copied";
});
setInterval(() => { if (!document.hidden) refresh(); }, 30000); // what is idle or stale becomes so without an event
showTimes(document);
listen();
