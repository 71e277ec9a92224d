"use strict";
// The contents follow the reader.
const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    links.forEach((a) => a.removeAttribute("aria-current"));
    links.get(entry.target.id)?.setAttribute("aria-current", "true");
  }
}, { rootMargin: "0px 0px -70% 0px" });
links.forEach((_, id) => watcher.observe(document.getElementById(id)));

// The ledger can be filtered.
const form = document.querySelector(".filter");
if (form) {
  const rows = [...document.querySelectorAll(".ledger tbody tr")];
  const filter = () => {
    const words = form.words.value.toLowerCase();
    for (const row of rows) {
      row.hidden = (form.section.value && row.dataset.section !== form.section.value)
        || (form.verdict.value && row.dataset.verdict !== form.verdict.value)
        || !row.textContent.toLowerCase().includes(words);
    }
    form.querySelector("output").textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  };
  form.hidden = false;
  for (const event of ["input", "change"]) form.addEventListener(event, filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
}

// Tables can be sorted by any column.
for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const text = (row) => row.cells[column].textContent.trim();
      const order = (a, b) => {
        const difference = Number(text(a)) - Number(text(b));
        return Number.isNaN(difference) ? text(a).localeCompare(text(b), "en", { numeric: true }) : difference;
      };
      const sorted = [...table.tBodies[0].rows].sort(order);
      table.tBodies[0].append(...(down ? sorted.reverse() : sorted));
    });
  });
}
