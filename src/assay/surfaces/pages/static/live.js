// Keeps a page up to date: the server sends parts of it as it renders them, and each takes the place of the one with its id.
const place = (html) => {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  for (const part of [...holder.content.children]) {
    const old = document.getElementById(part.id);
    if (!old) continue;
    const focused = [...old.querySelectorAll("a, button, summary, [tabindex]")].indexOf(document.activeElement);
    old.replaceWith(part);
    if (focused >= 0) part.querySelectorAll("a, button, summary, [tabindex]")[focused]?.focus();
  }
  document.dispatchEvent(new Event("assay:changed"));
};

const lose = (isOver) => {
  const lost = document.querySelector("[data-live-lost]");
  if (!lost) return;
  if (isOver) lost.textContent = "Live updates have stopped. Reload the page.";
  lost.hidden = false;
};

let source = null;
let address = "";
const follow = () => {
  // A browser has six connections to a server for all its tabs together: a tab in the background holds none.
  const wanted = document.hidden ? "" : document.querySelector("[data-live]")?.dataset.live ?? "";
  if (wanted === address) return;
  source?.close();
  source = null;
  address = wanted;
  if (!wanted) return;
  let wasLost = false;
  source = new EventSource(wanted);
  // What changed while no events came is on the page as it is now.
  source.addEventListener("open", () => { if (wasLost) location.reload(); });
  source.addEventListener("part", (event) => place(event.data));
  source.addEventListener("end", () => { source.close(); location.reload(); });
  source.addEventListener("error", () => { wasLost = true; lose(source.readyState === EventSource.CLOSED); });
};

// A tab that is seen again shows what the page is now, and follows it from there.
const renew = async () => {
  const isLive = !document.hidden && document.querySelector("[data-live]");
  const answer = isLive ? await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null) : null;
  if (answer) {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!page.querySelector("[data-live]")) return location.reload();
    place([...page.querySelectorAll("#live, #lost, #summary, #news")].map((part) => part.outerHTML).join(""));
  }
  follow();
};

follow();
document.addEventListener("visibilitychange", renew);
document.addEventListener("assay:changed", follow);
addEventListener("pagehide", () => source?.close());
