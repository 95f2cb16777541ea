// The search page quotes the pages as they are stored, where a formula is TeX. The quotation
// gets simple formulas without their marks, and an ellipsis for the others.
if (typeof Search !== "undefined") {
  const asText = Search.htmlToText;
  const plain = (tex) => {
    const words = tex.replace(/^\\[([]|\\[)\]]$/g, "").trim();
    return /[\\{}_^]/.test(words) ? "…" : words;
  };
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    for (const found of page.querySelectorAll(".math")) found.replaceWith(plain(found.textContent));
    for (const found of page.querySelectorAll("div.cell_input, .sonode-data")) found.remove();
    return asText(page.documentElement.outerHTML, anchor).replace(/\s+/g, " ");
  };
}
