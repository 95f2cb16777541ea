// The theme names a few controls otherwise than they read, and calls a list what holds no
// list items. Speech control and screen readers go by these names, so they are put right:
// at once, and again when the theme's own scripts have run.
function nameAsTheyRead() {
  const without = (selector, attribute) => {
    for (const found of document.querySelectorAll(selector)) found.removeAttribute(attribute);
  };
  without(".search-button-field", "aria-label");
  without(".search-button-field", "title");
  without(".theme-switch-button i", "title");
  for (const icon of document.querySelectorAll(".theme-switch-button svg")) {
    icon.querySelector("title")?.remove();
    icon.removeAttribute("aria-labelledby");
    icon.setAttribute("aria-hidden", "true");
  }
  without("details.hide > summary", "aria-label");
  without(".citation-list", "role");
}
nameAsTheyRead();
addEventListener("DOMContentLoaded", nameAsTheyRead);
addEventListener("load", nameAsTheyRead);
