// What a number means, in a bubble for pointer, finger and keyboard; without this script the browser shows its own.
const bubble = document.createElement("div");
bubble.id = "tip-bubble";
bubble.setAttribute("role", "tooltip");
bubble.hidden = true;
document.body.append(bubble);
let shown = null;

const hide = () => {
  if (!shown) return;
  shown.title = shown.dataset.tip;
  delete shown.dataset.tip;
  shown.removeAttribute("aria-describedby");
  shown = null;
  bubble.hidden = true;
};

const show = (element) => {
  if (element === shown) return;
  hide();
  if (!element.title) return;
  shown = element;
  element.dataset.tip = element.title;
  element.removeAttribute("title");
  element.setAttribute("aria-describedby", bubble.id);
  bubble.textContent = element.dataset.tip;
  bubble.hidden = false;
  const box = element.getBoundingClientRect();
  const own = bubble.getBoundingClientRect();
  const left = Math.min(Math.max(8, box.left + box.width / 2 - own.width / 2), document.documentElement.clientWidth - own.width - 8);
  const isBelow = box.top < own.height + 16;
  bubble.style.left = `${Math.max(8, left)}px`;
  bubble.style.top = `${isBelow ? box.bottom + 8 : box.top - own.height - 8}px`;
};

const explained = (target) => (target instanceof Element ? target.closest(".tip, .tipped, .mark[title], .mark[data-tip]") : null);
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
document.addEventListener("scroll", hide, { passive: true, capture: true });
document.addEventListener("assay:changed", () => {
  if (!shown || shown.isConnected) return;
  shown = null;
  bubble.hidden = true;
});
