// What pages gain with script: completion while typing, decisions without loading the page again, tables as text.
// Everything here works without it too, by forms and links.

/**
 * An element with text and attributes; markup is never built from text.
 * @param {string} name
 * @param {Record<string, string>} attributes
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Tells something to people who hear pages. @param {string} text */
export function say(text) {
  const place = document.getElementById("said");
  if (place) place.textContent = text;
}

/** Whether a key was meant for a field. @param {KeyboardEvent} event */
export function isTyping(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  return event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);
}

/** Characters that mislead, as marks. @param {string} text */
function shown(text) {
  const marked = text.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
  return marked.length > 80 ? `${marked.slice(0, 40)}…${marked.slice(-38)}` : marked;
}

// Completion: a field with data-complete offers names; data-go leads to the page of the chosen one.
let fields = 0;
/** @param {HTMLInputElement} field */
function complete(field) {
  const kinds = field.dataset.complete;
  if (!kinds) return;
  const id = `names-${fields++}`;
  const list = make("ul", { role: "listbox", id, hidden: "", "aria-label": "Names" });
  const box = make("div", { class: "complete" });
  field.replaceWith(box);
  box.append(field, list);
  for (const [key, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list" })) field.setAttribute(key, value);
  /** @type {{kind: string, name: string, label?: string}[]} */
  let hits = [];
  let at = -1;
  let asked = 0;
  const close = () => {
    list.hidden = true;
    at = -1;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };
  /** @param {number} next */
  const mark = (next) => {
    at = next;
    [...list.children].forEach((option, place) => option.setAttribute("aria-selected", String(place === at)));
    if (at >= 0) field.setAttribute("aria-activedescendant", list.children[at].id);
    else field.removeAttribute("aria-activedescendant");
  };
  /** @param {number} place */
  const choose = (place) => {
    const hit = hits[place];
    close();
    if (field.dataset.go !== undefined) location.assign(`${hit.kind}?${new URLSearchParams({ name: hit.name })}`);
    else field.value = hit.name;
  };
  const ask = async () => {
    const typed = field.value.trim();
    const number = ++asked;
    if (typed === "") return close();
    try {
      const answer = await fetch(`api/v1/search?${new URLSearchParams({ q: typed, kind: kinds, limit: "8" })}`);
      if (!answer.ok || number !== asked) return;
      hits = (await answer.json()).hits;
    } catch {
      return;
    }
    list.replaceChildren(
      ...hits.map((hit, place) => {
        const option = make("li", { role: "option", id: `${id}-${place}`, "aria-selected": "false" }, shown(hit.label ?? hit.name));
        const about = [hit.label ? shown(hit.name) : "", hit.kind === "relation" && kinds.includes(",") ? "relation" : ""].filter(Boolean);
        if (about.length) option.append(make("small", {}, ` ${about.join(", ")}`));
        option.addEventListener("pointerdown", (event) => {
          event.preventDefault();
          choose(place);
        });
        return option;
      }),
    );
    at = -1;
    list.hidden = hits.length === 0;
    field.setAttribute("aria-expanded", String(hits.length > 0));
  };
  field.addEventListener("input", ask);
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return close();
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      mark((at + step + hits.length) % hits.length);
    } else if (event.key === "Enter" && at >= 0) {
      event.preventDefault();
      choose(at);
    }
  });
}

/**
 * Sends a decision; answers with what is kept.
 * @param {HTMLFormElement} form
 * @param {string} decision accept, reject, skip or undo
 */
export async function decide(form, decision) {
  const query = new URL(form.action).searchParams;
  const fact = { head: query.get("head"), relation: query.get("relation"), tail: query.get("tail") };
  const answer = await fetch("api/v1/suggestions/decision", {
    method: decision === "undo" ? "DELETE" : "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(decision === "undo" ? fact : { ...fact, decision }),
  });
  const told = await answer.json().catch(() => ({ title: "the server", detail: `answered ${answer.status}` }));
  if (!answer.ok) throw new Error(`${told.title}: ${told.detail}`);
  return told;
}

/** Says beside a form what went wrong, to eyes and ears. @param {HTMLFormElement} form @param {unknown} error */
export function complain(form, error) {
  const text = error instanceof Error ? error.message : String(error);
  form.querySelector(".warn")?.remove();
  form.append(make("span", { class: "warn", role: "alert" }, ` ${text}`));
}

const WORDS = { accept: "Accepted", reject: "Rejected", skip: "Skipped", undo: "Undone" };

/**
 * Shows what was decided in a form.
 * @param {HTMLFormElement} form
 * @param {"accept" | "reject" | "skip" | "undo"} decision
 * @param {string=} reviewer
 */
export function show(form, decision, reviewer) {
  const more = form.querySelector(".more");
  const button = (/** @type {string} */ value, /** @type {string} */ word) => make("button", { name: "decision", value, class: value }, word);
  const rest = more ? [more] : [];
  if (decision === "undo") form.replaceChildren(button("accept", "Accept"), button("reject", "Reject"), ...(document.getElementById("queue") ? [button("skip", "Skip")] : []), ...rest);
  else {
    const by = reviewer ? ` by ${reviewer}` : "";
    const class_ = { accept: "accepted", reject: "rejected", skip: "skipped" }[decision];
    form.replaceChildren(make("span", { class: `decided ${class_}` }, WORDS[decision] + by), button("undo", "Undo"), ...rest);
  }
  say(WORDS[decision]);
}

document.addEventListener("submit", async (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (!form.classList.contains("decide")) return;
  event.preventDefault();
  const button = /** @type {HTMLButtonElement | null} */ (event.submitter);
  const decision = /** @type {"accept" | "reject" | "skip" | "undo"} */ (button?.value ?? "");
  try {
    const kept = await decide(form, decision);
    const had = form.contains(document.activeElement);
    show(form, decision, kept.reviewer);
    if (had) form.querySelector("button")?.focus();
    form.dispatchEvent(new CustomEvent("decided", { bubbles: true, detail: decision }));
  } catch (error) {
    complain(form, error);
  }
});

// Fields that were left empty are not sent.
document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (form.method !== "get") return;
  for (const field of form.querySelectorAll("input, select")) if (/** @type {HTMLInputElement} */ (field).value === "") field.setAttribute("disabled", "");
});
addEventListener("pageshow", () => document.querySelectorAll("[disabled]").forEach((field) => field.removeAttribute("disabled")));

document.querySelectorAll("input[data-complete]").forEach((field) => complete(/** @type {HTMLInputElement} */ (field)));

// Every table can be taken along as text.
for (const table of document.querySelectorAll("table[data-tsv]")) {
  const button = make("button", { type: "button", class: "quiet" }, "Copy as TSV");
  button.addEventListener("click", async () => {
    const cell = (/** @type {Element} */ it) => (/** @type {HTMLElement} */ (it).innerText ?? "").replace(/\s+/g, " ").trim();
    const rows = [.../** @type {HTMLTableElement} */ (table).rows].map((row) => [...row.cells].map(cell).join("\t"));
    try {
      await navigator.clipboard.writeText(`${rows.join("\n")}\n`);
      button.textContent = "Copied";
    } catch {
      button.textContent = "The browser does not allow copying here";
    }
  });
  table.parentElement?.after(make("p", {}, button));
}

document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !isTyping(event)) {
    event.preventDefault();
    const field = /** @type {HTMLInputElement | null} */ (document.getElementById("big") ?? document.getElementById("search"));
    field?.focus();
    field?.select();
  }
});
