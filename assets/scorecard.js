// The switches above the scorecard: show the claims of one word, and say how many.
addEventListener("DOMContentLoaded", () => {
  const switches = [...document.querySelectorAll("button.filter")];
  const rows = [...document.querySelectorAll("article.claim")];
  if (!switches.length) return;

  function show(wanted) {
    const fits = (row) => wanted === "all" || row.dataset.verdict === wanted;
    for (const row of rows) row.hidden = !fits(row);
    for (const section of document.querySelectorAll("section.claims"))
      section.hidden = !section.querySelector("article.claim:not([hidden])");
    for (const button of switches)
      button.setAttribute("aria-pressed", String(button.dataset.show === wanted));
    const shown = rows.filter((row) => !row.hidden).length;
    document.querySelector(".shown").textContent =
      wanted === "all" ? "" : `${shown} of ${rows.length} claims shown`;
  }

  // A link to a claim opens its details.
  const open = () => document.querySelector(`${location.hash || "#none"} > details`)?.setAttribute("open", "");
  addEventListener("hashchange", open);
  open();
  for (const button of switches) button.addEventListener("click", () => show(button.dataset.show));
});
