"use strict";

// Shows the events of /console/tap/events, the latest first: all as text, nothing as markup.
const MOST = 200;
let source = null;

function cell(row, kind, ...content) {
  const made = row.insertCell();
  made.className = kind;
  made.append(...content.filter((one) => one !== null && one !== undefined).map((one) => (one instanceof Node ? one : String(one))));
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function outcome(message) {
  const parts = [];
  for (const name of ["delivered", "under_way", "expired", "cancelled"]) {
    if (message[name]) parts.push(`${message[name]} ${name.replace("_", " ")}`);
  }
  for (const one of message.attempts) {
    if (one.error) parts.push(`${one.subscription}: ${one.error}`);
  }
  return parts.join("; ") || (message.matched === 0 ? "nobody subscribes to it" : "");
}

function show(rows, message) {
  const row = rows.insertRow(0);
  cell(row, "time", element("time", message.at, { datetime: message.at }));
  cell(row, "code", element("code", message.topic ?? ""));
  cell(row, "code", element("code", message.by ?? ""));
  cell(row, "number", message.bytes);
  cell(row, "number", message.matched);
  cell(row, "text", outcome(message));
  cell(row, "code", element("a", message.id, { href: `/console/messages/${encodeURIComponent(message.id)}` }));
  if (message.payload) row.cells[5].append(element("pre", message.payload.text ?? message.payload));
  localise(row);
  while (rows.rows.length > MOST) rows.deleteRow(-1);
}

// Watches for the table that is there now, and no longer for one that it took the place of.
function watch() {
  const rows = document.getElementById("tap");
  if (rows === null || rows.dataset.watched) return;
  rows.dataset.watched = "true";
  source?.close();
  const said = document.getElementById("said");
  const pause = document.getElementById("pause");
  let paused = false;
  let held = 0;
  let lost = 0;

  function tell() {
    const parts = [paused ? `Paused: ${held} passed meanwhile.` : "Watching."];
    if (lost) parts.push(`${lost} were dropped: too many to show.`);
    said.textContent = parts.join(" ");
  }

  const watched = (source = new EventSource(rows.dataset.source));
  source.addEventListener("open", tell);
  source.addEventListener("error", () => {
    said.textContent =
      watched.readyState === EventSource.CLOSED
        ? "Refused: look at the topic and the XPath, or eight watch already."
        : "The gateway does not answer: it is asked again.";
  });
  source.addEventListener("message", (event) => {
    if (paused) {
      held += 1;
      tell();
    } else show(rows, JSON.parse(event.data));
  });
  source.addEventListener("lost", (event) => {
    lost = JSON.parse(event.data).dropped;
    tell();
  });
  pause.addEventListener("click", () => {
    paused = !paused;
    held = 0;
    pause.setAttribute("aria-pressed", String(paused));
    tell();
  });
  document.getElementById("clear").addEventListener("click", () => rows.replaceChildren());
}

document.addEventListener("DOMContentLoaded", watch);
document.addEventListener("htmx:load", watch);
