// Draw every interactive figure of the page from the data that stands in the page.
for (const holder of document.querySelectorAll(".sonode-data")) {
  const { figure, description } = holder.dataset;
  const known = { data: JSON.parse(holder.querySelector("script").textContent), description };
  holder.replaceChildren();
  window.sonodeFigures[figure].render({ el: holder, model: { get: (name) => known[name] } });
}
