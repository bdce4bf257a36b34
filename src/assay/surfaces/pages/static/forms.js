// Filters apply as soon as they are chosen; a search after a moment without typing. Enter and the button do the same without this.
// A form with data-filter="in-place" stays as it is, and what stands around it is taken from the page that it asks for.
const main = document.querySelector("main");
let latest = 0;

// Attributes are read as such: a field called "dataset" or "action" would stand for the property of the form.
const addressOf = (form) => {
  const address = new URL(form.getAttribute("action"), location.href);
  for (const [name, value] of new FormData(form)) if (value) address.searchParams.append(name, value);
  return address;
};

const put = (form, page) => {
  const found = page.querySelector("main > form[data-filter]");
  if (!found) return false;
  for (const child of [...main.childNodes]) if (child !== form) child.remove();
  let isAfter = false;
  for (const child of [...found.parentNode.childNodes]) {
    if (child === found) isAfter = true;
    else if (isAfter) main.append(child);
    else form.before(child);
  }
  return true;
};

const swap = async (form) => {
  const address = addressOf(form);
  const turn = ++latest;
  main.setAttribute("aria-busy", "true");
  const answer = await fetch(address, { headers: { Accept: "text/html" } }).catch(() => null);
  if (turn !== latest) return;
  const page = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  if (!page || !put(form, page)) {
    location.assign(address);
    return;
  }
  main.removeAttribute("aria-busy");
  history.replaceState(null, "", address);
  document.dispatchEvent(new Event("assay:changed"));
};

for (const form of document.querySelectorAll("form[data-filter]")) {
  let wait;
  const isInPlace = form.getAttribute("data-filter") === "in-place";
  const send = () => {
    clearTimeout(wait);
    if (isInPlace) {
      swap(form);
      return;
    }
    for (const field of form.querySelectorAll("input, select")) if (field.name && !field.value) field.disabled = true;
    form.requestSubmit();
  };
  form.addEventListener("submit", (event) => {
    main.setAttribute("aria-busy", "true");
    if (!isInPlace) return;
    event.preventDefault();
    send();
  });
  form.addEventListener("change", (event) => { if (event.target.tagName === "SELECT") send(); });
  form.addEventListener("input", (event) => {
    if (event.target.type !== "search") return;
    clearTimeout(wait);
    wait = setTimeout(send, 300);
  });
}

addEventListener("pageshow", () => {
  main.removeAttribute("aria-busy");
  for (const field of document.querySelectorAll("form[data-filter] :disabled")) field.disabled = false;
});
