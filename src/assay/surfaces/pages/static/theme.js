// The theme that a reader chose: system, light or dark; kept in this browser alone.
"use strict";
(() => {
  const names = ["system", "light", "dark"];
  const read = () => {
    try { return names.find((name) => name === localStorage.getItem("assay-theme")) ?? "system"; } catch { return "system"; }
  };
  const show = (name) => {
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
  };
  show(read());
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-toggle]");
    if (!button) return;
    const label = button.querySelector("[data-theme-name]");
    label.textContent = read();
    button.hidden = false;
    button.addEventListener("click", () => {
      const next = names[(names.indexOf(read()) + 1) % names.length];
      try { localStorage.setItem("assay-theme", next); } catch { /* a private window keeps nothing */ }
      show(next);
      label.textContent = next;
    });
  });
})();
