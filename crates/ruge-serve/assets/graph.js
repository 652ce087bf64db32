// Keys of an entity's page: g leads to its neighbourhood, n to the next relation, arrows walk through the drawing.
import { isTyping } from "./ruge.js";

document.addEventListener("keydown", (event) => {
  if (isTyping(event)) return;
  const drawing = [...document.querySelectorAll(".graph")].find((it) => it.getClientRects().length);
  if (!drawing) return;
  const links = /** @type {SVGAElement[]} */ ([...drawing.querySelectorAll("a")]);
  const titles = links.filter((link) => link.querySelector(".relation"));
  const here = links.indexOf(/** @type {SVGAElement} */ (document.activeElement));
  /** @type {SVGAElement | undefined} */
  let to;
  if (event.key === "g") to = links[0];
  else if (event.key === "n") to = titles.find((link) => links.indexOf(link) > here) ?? titles[0];
  else if (here >= 0 && event.key === "ArrowDown") to = links[here + 1];
  else if (here >= 0 && event.key === "ArrowUp") to = links[here - 1];
  if (to) {
    event.preventDefault();
    to.focus();
    to.scrollIntoView({ block: "nearest" });
  }
});
