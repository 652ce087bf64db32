// A fact's page: a accepts, r rejects, s skips, u undoes, as in Review.
import { complain, decide, isTyping, make, show } from "./ruge.js";

const KEYS = /** @type {Record<string, "accept" | "reject" | "skip" | "undo">} */ ({ a: "accept", r: "reject", s: "skip", u: "undo" });
let isBusy = false;

const form = /** @type {HTMLFormElement | null} */ (document.querySelector("form.decide"));
if (form) {
  const help = make("p", { class: "keys" });
  for (const [key, word] of Object.entries(KEYS)) help.append(make("span", {}, make("kbd", {}, key), ` ${word}`));
  form.after(help);
}

document.addEventListener("keydown", async (event) => {
  const decision = KEYS[event.key];
  if (!form || !decision || isBusy || isTyping(event)) return;
  // What is decided is taken back first, and only that.
  if ((decision === "undo") !== Boolean(form.querySelector("button.undo"))) return;
  event.preventDefault();
  isBusy = true;
  try {
    const kept = await decide(form, decision);
    show(form, decision, kept.reviewer);
  } catch (error) {
    complain(form, error);
  }
  isBusy = false;
});
