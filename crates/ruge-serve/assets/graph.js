// An entity's page: g leads to its neighbourhood, n to the next relation, arrows walk through the drawing, e opens a neighbour's own
// neighbourhood below. The drawing can be made larger and moved; without script it is whole, and every name is a link.
import { isTyping, make, say } from "./ruge.js";

/** Drawings that are shown, from top to bottom. */
const drawings = () => [...document.querySelectorAll(".graph")].filter((it) => it.getClientRects().length);

/**
 * Lets a drawing be made larger and moved.
 * @param {Element} place
 */
function movable(place) {
  const svg = /** @type {SVGSVGElement | null} */ (place.querySelector("svg"));
  if (!svg) return;
  const whole = svg.viewBox.baseVal;
  const [width, height] = [whole.width, whole.height];
  let [x, y, scale] = [0, 0, 1];
  const show = () => {
    x = Math.max(0, Math.min(x, width - width / scale));
    y = Math.max(0, Math.min(y, height - height / scale));
    svg.setAttribute("viewBox", `${x} ${y} ${width / scale} ${height / scale}`);
    place.classList.toggle("moved", scale > 1);
  };
  /** @param {number} factor @param {number} toX @param {number} toY where it stays, as shares of what is seen */
  const zoom = (factor, toX = 0.5, toY = 0.5) => {
    const next = Math.max(1, Math.min(6, scale * factor));
    x += (width / scale - width / next) * toX;
    y += (height / scale - height / next) * toY;
    scale = next;
    show();
  };
  const tools = make("p", { class: "tools" });
  for (const [sign, name, act] of /** @type {[string, string, () => void][]} */ ([
    ["+", "Larger", () => zoom(1.5)],
    ["−", "Smaller", () => zoom(1 / 1.5)],
    ["⤢", "Whole drawing", () => zoom(0)],
  ])) {
    const button = make("button", { type: "button", class: "quiet", "aria-label": name, title: name }, sign);
    button.addEventListener("click", act);
    tools.append(button);
  }
  place.before(tools);
  svg.addEventListener(
    "wheel",
    (event) => {
      // A wheel by itself scrolls the page.
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    },
    { passive: false },
  );
  /** @type {PointerEvent | null} */
  let from = null;
  svg.addEventListener("pointerdown", (event) => {
    if (scale > 1 && event.button === 0 && !(/** @type {Element} */ (event.target).closest("a"))) {
      from = event;
      svg.setPointerCapture(event.pointerId);
    }
  });
  svg.addEventListener("pointermove", (event) => {
    if (!from) return;
    const perPixel = width / scale / svg.getBoundingClientRect().width;
    x -= (event.clientX - from.clientX) * perPixel;
    y -= (event.clientY - from.clientY) * perPixel;
    from = event;
    show();
  });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => (from = null));
  // What has the focus is in sight.
  svg.addEventListener("focusin", (event) => {
    const text = /** @type {Element} */ (event.target).querySelector("text");
    if (!text || scale === 1) return;
    const [atX, atY] = [Number(text.getAttribute("x")), Number(text.getAttribute("y"))];
    x = atX - width / scale / 2;
    y = atY - height / scale / 2;
    show();
  });
}

/**
 * Shows the neighbourhood of a neighbour below.
 * @param {SVGElement} link
 */
async function expand(link) {
  const address = link.getAttribute("href") ?? "";
  const here = link.closest(".graph");
  if (!address.startsWith("entity?") || !here) return;
  const known = [...document.querySelectorAll(".expanded")].find((it) => /** @type {HTMLElement} */ (it).dataset.of === address);
  if (known) return /** @type {SVGElement | null} */ (known.querySelector("svg a"))?.focus();
  try {
    const answer = await fetch(address, { headers: { accept: "text/html" } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const title = page.querySelector("h1")?.textContent ?? "";
    const box = make("div", { class: "expanded" }, make("h3", {}, make("a", { href: address }, title)));
    box.dataset.of = address;
    box.append(...[...page.querySelectorAll(".graph")].map((it) => document.importNode(it, true)));
    document.querySelector("#graph")?.parentElement?.append(box);
    box.querySelectorAll(".graph").forEach(movable);
    say(`${title} is shown below`);
    const first = [...box.querySelectorAll(".graph")].find((it) => it.getClientRects().length);
    /** @type {SVGElement | null | undefined} */ (first?.querySelector("a"))?.focus();
    box.scrollIntoView({ block: "nearest" });
  } catch (error) {
    say(String(error));
  }
}

document.querySelectorAll(".graph").forEach(movable);
const help = document.querySelector(".graph") && make("p", { class: "keys" });
if (help) {
  for (const [key, word] of [["g", "into the drawing"], ["n", "next relation"], ["↓ ↑", "walk"], ["e", "open a neighbour below"]]) help.append(make("span", {}, make("kbd", {}, key), ` ${word}`));
  drawings().at(-1)?.parentElement?.append(help);
}

document.addEventListener("keydown", (event) => {
  if (isTyping(event)) return;
  const links = /** @type {SVGElement[]} */ (drawings().flatMap((drawing) => [...drawing.querySelectorAll("a")]));
  const titles = links.filter((link) => link.querySelector(".relation"));
  const here = links.indexOf(/** @type {any} */ (document.activeElement));
  /** @type {SVGElement | undefined} */
  let to;
  if (event.key === "g") to = links[0];
  else if (event.key === "n") to = titles.find((link) => links.indexOf(link) > here) ?? titles[0];
  else if (here >= 0 && event.key === "ArrowDown") to = links[here + 1];
  else if (here >= 0 && event.key === "ArrowUp") to = links[here - 1];
  else if (here >= 0 && event.key === "e") {
    event.preventDefault();
    expand(links[here]);
  }
  if (to) {
    event.preventDefault();
    to.focus();
    to.scrollIntoView({ block: "nearest" });
  }
});
