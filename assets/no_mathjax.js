// The book was built without MathJax: its formulas stay TeX, and the page says so once.
addEventListener("DOMContentLoaded", () => {
  const words = document.createElement("p");
  words.className = "no-mathjax";
  words.setAttribute("role", "note");
  words.textContent =
    "This book was built without MathJax, so its formulas are shown as TeX. " +
    "Build it again with npm and a network to see them set.";
  document.querySelector(".bd-article h1")?.after(words);
});
