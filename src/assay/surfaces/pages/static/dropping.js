// A file can be dropped on the form, one that is too large is refused before it is sent, and the form says that it is busy.
for (const form of document.querySelectorAll("form[data-drop]")) {
  const field = form.querySelector("input[type=file]");
  const problem = form.querySelector("[data-drop-problem]");
  const fits = () => {
    const file = field.files[0];
    const isLarge = file && file.size > Number(form.dataset.maxBytes) && !file.name.toLowerCase().endsWith(".gz");
    problem.hidden = !isLarge;
    problem.textContent = isLarge ? `“${file.name}” is too large: this server takes up to ${form.dataset.limit}. Split it, or use: assay validate FILE` : "";
    field.setCustomValidity(isLarge ? "too large" : "");
    return Boolean(file) && !isLarge;
  };
  form.querySelector("[data-drop-words]").hidden = false;
  field.addEventListener("change", fits);
  for (const name of ["dragenter", "dragover"]) form.addEventListener(name, (event) => {
    event.preventDefault();
    form.classList.add("is-over");
  });
  for (const name of ["dragleave", "drop"]) form.addEventListener(name, () => form.classList.remove("is-over"));
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    if (!event.dataTransfer.files.length) return;
    field.files = event.dataTransfer.files;
    if (fits()) form.requestSubmit();
  });
  form.addEventListener("submit", () => { form.querySelector("[data-drop-busy]").hidden = false; });
  addEventListener("pageshow", () => { form.querySelector("[data-drop-busy]").hidden = true; });
}
