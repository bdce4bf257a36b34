// What a number means, in a bubble for pointer, finger and keyboard; without this script the browser shows its own.
// A number in a table that says nothing itself is explained by the head of its column.
const bubble = document.createElement("div");
bubble.id = "tip-bubble";
bubble.setAttribute("role", "tooltip");
bubble.hidden = true;
document.body.append(bubble);
let shown = null;

const headOf = (cell) => cell.closest("table")?.tHead?.rows[0]?.cells[cell.cellIndex]?.querySelector("[title]");
const meaningOf = (element) => element.title || (element.tagName === "TD" && headOf(element)?.title) || "";

const hide = () => {
  if (!shown) return;
  if (shown.dataset.tip) shown.title = shown.dataset.tip;
  delete shown.dataset.tip;
  shown.removeAttribute("aria-describedby");
  shown = null;
  bubble.hidden = true;
};

const place = (box) => {
  const own = bubble.getBoundingClientRect();
  const left = Math.min(box.left + box.width / 2 - own.width / 2, document.documentElement.clientWidth - own.width - 8);
  bubble.style.left = `${Math.max(8, left)}px`;
  bubble.style.top = `${box.top < own.height + 16 ? box.bottom + 8 : box.top - own.height - 8}px`;
};

const show = (element) => {
  if (element === shown) return;
  hide();
  const meaning = meaningOf(element);
  if (!meaning) return;
  shown = element;
  if (element.title) element.dataset.tip = element.title;
  element.removeAttribute("title");
  element.setAttribute("aria-describedby", bubble.id);
  bubble.textContent = meaning;
  bubble.hidden = false;
  place(element.getBoundingClientRect());
};

const explained = (target) => {
  if (!(target instanceof Element)) return null;
  return target.closest(".tip, .tipped, .mark[title], .mark[data-tip]") ?? target.closest("td.number");
};
document.addEventListener("pointerover", (event) => {
  const element = explained(event.target);
  if (element) show(element);
  else if (shown && shown !== document.activeElement) hide();
});
document.addEventListener("focusin", (event) => {
  const element = explained(event.target);
  if (element) show(element);
  else hide();
});
document.addEventListener("focusout", hide);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
document.addEventListener("scroll", () => { if (shown) place(shown.getBoundingClientRect()); }, { passive: true, capture: true });
document.addEventListener("assay:changed", () => {
  if (!shown || shown.isConnected) return;
  shown = null;
  bubble.hidden = true;
});
