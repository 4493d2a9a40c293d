"use strict";

const TIMES = [
  new Intl.DateTimeFormat(undefined, { timeStyle: "medium" }),
  new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" }),
];

// Times in the reader's zone, those of today without the date; what the server wrote, in UTC, is
// shown on hover.
function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    time.title = time.textContent;
    const today = moment.toDateString() === new Date().toDateString();
    time.textContent = TIMES[today ? 0 : 1].format(moment);
  }
}

// A box in the head of a table that ticks all of its rows.
function offerAll(root) {
  for (const head of root.querySelectorAll("th.tick:not(:has(input))")) {
    const all = document.createElement("input");
    all.type = "checkbox";
    all.ariaLabel = "Tick all that are shown";
    all.addEventListener("change", () => {
      for (const one of head.closest("table").querySelectorAll("td.tick input")) one.checked = all.checked;
    });
    head.replaceChildren(all);
  }
}

function improve(root) {
  localise(root);
  offerAll(root);
}

document.addEventListener("DOMContentLoaded", () => improve(document));
document.addEventListener("htmx:load", (event) => improve(event.detail.elt));

// What refreshes itself would take the focus, or a selection, from the reader who is in it.
document.addEventListener("htmx:beforeRequest", (event) => {
  const element = event.detail.elt;
  if (element.id !== "state") return;
  const selection = document.getSelection();
  const selects = selection && !selection.isCollapsed && element.contains(selection.anchorNode);
  if (document.hidden || selects || element.contains(document.activeElement)) event.preventDefault();
});
