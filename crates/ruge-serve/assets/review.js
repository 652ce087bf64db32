// Review by keyboard: one fact is current, a key decides, the next one becomes current.
import { complain, decide, isTyping, make, show } from "./ruge.js";

const HELP = [["a", "accept"], ["r", "reject"], ["s", "skip"], ["u", "undo"], ["j", "next"], ["k", "previous"], ["o", "open"], ["?", "these keys"]];
let at = 0;
/** What was decided here, the last one last. @type {HTMLFormElement[]} */
let done = [];
let isBusy = false;

const cards = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#queue .proposal")]);
const formOf = (/** @type {HTMLElement} */ card) => /** @type {HTMLFormElement | null} */ (card.querySelector("form.decide"));

/** @param {number} next @param {boolean} scrolls */
function go(next, scrolls = true) {
  const list = cards();
  if (!list.length) return;
  at = Math.max(0, Math.min(next, list.length - 1));
  list.forEach((card, place) => {
    card.classList.toggle("current", place === at);
    if (place === at) card.setAttribute("aria-current", "true");
    else card.removeAttribute("aria-current");
    card.tabIndex = place === at ? 0 : -1;
  });
  if (scrolls) {
    list[at].focus({ preventScroll: true });
    list[at].scrollIntoView({ block: "nearest" });
  }
}

/** Counts and reliability as they are now, and new facts when these are done. @param {boolean} withQueue */
async function refresh(withQueue) {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const id of withQueue ? ["progress", "bins", "queue"] : ["progress", "bins"]) {
    const [old, fresh] = [document.getElementById(id), page.getElementById(id)];
    if (old && fresh) old.replaceWith(document.importNode(fresh, true));
  }
  if (withQueue) {
    done = [];
    go(0);
  }
}

function next() {
  const list = cards();
  const open = list.findIndex((card, place) => place > at && card.querySelector("button.accept"));
  if (open >= 0) return go(open);
  const left = list.findIndex((card) => card.querySelector("button.accept"));
  if (left >= 0) go(left);
}

/** @param {"accept" | "reject" | "skip"} decision */
async function act(decision) {
  const card = cards()[at];
  const form = card && formOf(card);
  if (!form || isBusy) return;
  isBusy = true;
  try {
    const kept = await decide(form, decision);
    show(form, decision, kept.reviewer);
    done.push(form);
    const isLast = !document.querySelector("#queue button.accept");
    if (!isLast) next();
    await refresh(isLast && !new URL(location.href).searchParams.get("state"));
  } catch (error) {
    complain(form, error);
  }
  isBusy = false;
}

async function undo() {
  const form = done.at(-1);
  if (!form || isBusy) return;
  isBusy = true;
  try {
    await decide(form, "undo");
    done.pop();
    show(form, "undo");
    go(cards().findIndex((card) => card.contains(form)));
    await refresh(false);
  } catch (error) {
    complain(form, error);
  }
  isBusy = false;
}

document.addEventListener("decided", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (/** @type {CustomEvent} */ (event).detail !== "undo") done.push(form);
  refresh(false);
});

document.addEventListener("keydown", (event) => {
  if (isTyping(event)) return;
  const keys = /** @type {Record<string, () => unknown>} */ ({
    a: () => act("accept"),
    r: () => act("reject"),
    s: () => act("skip"),
    u: undo,
    j: () => go(at + 1),
    k: () => go(at - 1),
    ArrowDown: () => go(at + 1),
    ArrowUp: () => go(at - 1),
    o: () => /** @type {HTMLAnchorElement | null} */ (cards()[at]?.querySelector("a.more"))?.click(),
    "?": () => document.getElementById("keys")?.toggleAttribute("hidden"),
  });
  const act_ = keys[event.key];
  if (act_ && cards().length) {
    event.preventDefault();
    act_();
  }
});

const hasForms = document.querySelector("#queue form.decide");
if (hasForms) {
  const help = make("p", { class: "keys", id: "keys" });
  for (const [key, word] of HELP) help.append(make("span", {}, make("kbd", {}, key), ` ${word}`));
  document.getElementById("queue")?.before(help);
}
go(0, false);
