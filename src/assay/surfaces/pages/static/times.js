// Times in the reader's zone: ages that grow, and moments; the other form is shown when pointed at.
const units = [["year", 31557600], ["month", 2629800], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const ages = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const moments = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

const age = (date) => {
  const seconds = (date.getTime() - Date.now()) / 1000;
  const [unit, length] = units.find(([, length]) => Math.abs(seconds) >= length) ?? units.at(-1);
  return Math.abs(seconds) < 5 ? "just now" : ages.format(Math.trunc(seconds / length), unit);
};

const show = (isOnPaper = false) => {
  for (const element of document.querySelectorAll("time[data-when]")) {
    const date = new Date(element.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const moment = moments.format(date);
    const isAge = element.dataset.when === "age" && !isOnPaper;
    const text = isAge ? age(date) : moment;
    if (element.textContent !== text) element.textContent = text;
    element.title = isAge ? `${moment} (${zone})` : `${age(date)} · ${zone}`;
  }
};

show();
setInterval(() => show(), 15000);
document.addEventListener("assay:changed", () => show());
addEventListener("beforeprint", () => show(true));
addEventListener("afterprint", () => show());
