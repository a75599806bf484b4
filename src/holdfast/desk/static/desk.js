"use strict";
// Sliders say their value while they move; everything else is htmx and plain forms.
document.addEventListener("input", (event) => {
  const label = event.target.closest(".sliders label");
  if (label) label.querySelector(".value").textContent = Number(event.target.value);
});
// A question is asked anew when somebody is taken off the list; an id is added by the form itself.
document.addEventListener("submit", (event) => {
  const form = event.target;
  const typed = form.id === "question" && form.querySelector("[name=add]").value.trim();
  if (typed) { event.stopImmediatePropagation(); return; }
  if (form.method === "post") {
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "yes";
    form.classList.add("busy");
  }
}, true);
// Coming back to a page that was left in the middle of sending lets one send again.
window.addEventListener("pageshow", () => {
  document.querySelectorAll("form[data-sent]").forEach((form) => {
    delete form.dataset.sent;
    form.classList.remove("busy");
  });
});
