"use strict";

// Times in the reader's zone; what the server wrote, in UTC, is shown on hover.
function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    time.title = time.textContent;
    time.textContent = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  }
}

document.addEventListener("DOMContentLoaded", () => localise(document));
document.addEventListener("htmx:load", (event) => localise(event.detail.elt));

// What refreshes itself would take the focus, or a selection, from the reader who is in it.
document.addEventListener("htmx:beforeRequest", (event) => {
  const element = event.detail.elt;
  if (element.id !== "state") return;
  const selection = document.getSelection();
  const selects = selection && !selection.isCollapsed && element.contains(selection.anchorNode);
  if (document.hidden || selects || element.contains(document.activeElement)) event.preventDefault();
});
