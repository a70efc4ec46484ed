// The question for an API key.
import { el } from "./dom.js";
import { forget, keep } from "./key.js";

/** A form that asks for a key; `told` is why, `wrong` whether one was given already, `done` is called with a new one. */
export function lock(told, wrong, done) {
  const input = el("input", { id: "key", type: "password", autocomplete: "off", spellcheck: "false", required: true,
    "aria-describedby": "key-why", "aria-invalid": wrong ? "true" : null });
  const submit = (event) => {
    event.preventDefault();
    const given = input.value.trim();
    if (given === "") return;
    keep(given);
    done();
  };
  if (wrong) forget();
  return el("section", { class: "lock card", "aria-labelledby": "lock-title" },
    el("h1", { id: "lock-title", tabindex: -1 }, "This service needs a key"),
    el("p", { id: "key-why", class: wrong ? "wrong" : "hint" }, wrong ? `That key did not open it. ${told}` : told),
    el("form", { class: "row", onsubmit: submit },
      el("label", { for: "key" }, "API key with the role read"),
      el("div", { class: "field" }, input, el("button", { type: "submit", class: "primary" }, "Open"))),
    el("p", { class: "hint" }, "It stays in this tab and is gone when the tab is closed. ",
      el("code", {}, "rankloop serve --new-key me:read"), " makes one."));
}
