// A page that waits for work of the server looks again, until the work is done; where it is a part of a page, that part alone.
if (document.querySelector("[data-wait]")) setTimeout(() => location.reload(), 1000);

const look = async (part) => {
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
    if (!found) return location.reload();
    part.replaceWith(found);
    document.dispatchEvent(new Event("assay:changed"));
    if (found.hasAttribute("data-wait-part")) setTimeout(look, 1000, found);
  } catch {
    setTimeout(look, 3000, part);
  }
};
for (const part of document.querySelectorAll("[data-wait-part]")) setTimeout(look, 1000, part);
