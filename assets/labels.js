// The theme names a few controls otherwise than they read, and calls a list what holds no
// list items. Speech control and screen readers go by these names, so they are put right.
addEventListener("DOMContentLoaded", () => {
  const without = (selector, attribute) => {
    for (const found of document.querySelectorAll(selector)) found.removeAttribute(attribute);
  };
  without(".search-button-field", "aria-label");
  without(".search-button-field", "title");
  without(".theme-switch-button i", "title");
  without("details.hide > summary", "aria-label");
  without(".citation-list", "role");
});
