// Filters apply as soon as they are chosen; a search after a moment without typing. Enter and the button do the same without this.
for (const form of document.querySelectorAll("form[data-filter]")) {
  let wait;
  const send = () => {
    for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
    form.requestSubmit();
  };
  form.addEventListener("submit", () => document.querySelector("main").setAttribute("aria-busy", "true"));
  form.addEventListener("change", (event) => { if (event.target.tagName === "SELECT") send(); });
  form.addEventListener("input", (event) => {
    if (event.target.type !== "search") return;
    clearTimeout(wait);
    wait = setTimeout(send, 500);
  });
}
addEventListener("pageshow", () => {
  document.querySelector("main").removeAttribute("aria-busy");
  for (const field of document.querySelectorAll("form[data-filter] :disabled")) field.disabled = false;
});
