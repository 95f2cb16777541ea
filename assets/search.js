// The search page quotes the pages as they are stored, where a formula is TeX. The quotation
// gets simple formulas without their marks, an ellipsis for the others, and no code or contents.
if (typeof Search !== "undefined") {
  const FURNITURE = "div.cell_input, .sonode-data, .bd-header-article, #jb-print-docs-body";
  const asText = Search.htmlToText;
  const plain = (tex) => {
    const words = tex.replace(/^\\[([]|\\[)\]]$/g, "").trim();
    return /[\\{}_^]/.test(words) ? "…" : words;
  };
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    for (const found of page.querySelectorAll(".math")) found.replaceWith(plain(found.textContent));
    for (const found of page.querySelectorAll(FURNITURE)) found.remove();
    return asText(page.documentElement.outerHTML, anchor).replace(/\s+/g, " ");
  };
}
