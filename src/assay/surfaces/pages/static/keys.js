// Moving by keys: j and k through rows or records, / to the search, u up. Links do the same without this.
const visible = (element) => element && element.offsetParent !== null;
const typing = (target) => target instanceof Element && target.closest("input, select, textarea, [contenteditable]");
const first = (selector) => [...document.querySelectorAll(selector)].find(visible);
const go = (rel) => first(`main a[rel~="${rel}"]`)?.click();

const move = (step) => {
  const links = [...document.querySelectorAll("[data-rows] tbody th a")].filter(visible);
  if (!links.length) return go(step > 0 ? "next" : "prev");
  const here = links.indexOf(document.activeElement);
  if (here < 0) return links[step > 0 ? 0 : links.length - 1].focus();
  const next = links[here + step];
  if (next) next.focus();
  else go(step > 0 ? "next" : "prev");
};

const keys = {
  j: () => move(1),
  k: () => move(-1),
  u: () => go("up"),
  "/": () => first("main input[type=search]")?.focus(),
};
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
