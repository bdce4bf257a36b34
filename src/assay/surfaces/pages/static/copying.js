// Buttons that copy a text, or what an address of ours has.
for (const button of document.querySelectorAll("[data-copy], [data-copy-from]")) button.hidden = !navigator.clipboard;
const wanted = async (button) => {
  if (!button.dataset.copyFrom) return button.dataset.copy;
  const answer = await fetch(button.dataset.copyFrom);
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.text();
};
document.addEventListener("click", async (event) => {
  const button = event.target instanceof Element ? event.target.closest("[data-copy], [data-copy-from]") : null;
  if (!button) return;
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(await wanted(button));
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not copied";
  }
  setTimeout(() => { button.textContent = label; }, 1500);
});
