// What is wider than a telephone is pushed aside in a frame of its own: pictures, tables,
// equations, code. While there is more to the right, the frame has the mark data-more, and its
// edge fades; below all but code stands "scroll →" (assets/book.css).
addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll(".bd-article figure img:not(.sonode-data img)")) {
    const frame = document.createElement("div");
    const outermost = image.closest("figure > *");
    outermost.before(frame);
    frame.className = "picture-frame";
    frame.append(outermost);
  }

  const FRAMES = [".picture-frame", ".sonode-figure", ".wide", ".pst-scrollable-table-container"]
    .concat(["mjx-container", "div.output.text_html", "div.highlight pre"])
    .map((name) => `.bd-article ${name}`)
    .join();

  function mark(frame) {
    const width = frame.scrollWidth - frame.clientWidth;
    const scrolls = width > 2 && getComputedStyle(frame).overflowX !== "visible";
    if (scrolls && !frame.hint && !frame.matches("pre")) {
      frame.hint = document.createElement("div");
      frame.hint.className = "scroll-hint";
      frame.hint.setAttribute("aria-hidden", "true");
      frame.hint.textContent = "scroll →";
      frame.after(frame.hint);
      if (!frame.hasAttribute("tabindex")) frame.tabIndex = 0;
    }
    if (frame.hint) frame.hint.hidden = !scrolls;
    frame.toggleAttribute("data-more", scrolls && frame.scrollLeft < width - 2);
  }

  const sizes = new ResizeObserver((changes) => changes.forEach((change) => mark(change.target)));
  const watch = () => document.querySelectorAll(FRAMES).forEach((frame) => sizes.observe(frame));
  const scrolled = (event) => event.target.matches?.(FRAMES) && mark(event.target);
  addEventListener("scroll", scrolled, { capture: true, passive: true });
  watch();
  addEventListener("load", () => Promise.resolve(window.MathJax?.startup?.promise).then(watch));
});
