// The form that asks for an API key.
import { forgetKey, storeKey } from "./api_key.js";
import { el } from "./dom.js";

/** The form; `reason` is the service's message, `rejected` whether a key was refused, `done` is called after input. */
export function keyForm(reason, rejected, done) {
  const input = el("input", { id: "key", type: "password", autocomplete: "off", spellcheck: "false", required: true,
    "aria-describedby": "key-reason", "aria-invalid": rejected ? "true" : null });
  const submit = (event) => {
    event.preventDefault();
    const key = input.value.trim();
    if (key === "") return;
    storeKey(key);
    done();
  };
  if (rejected) forgetKey();
  return el("section", { class: "key-form card", "aria-labelledby": "key-title" },
    el("h1", { id: "key-title", tabindex: -1 }, "API key required"),
    el("p", { id: "key-reason", class: rejected ? "wrong" : "hint" }, rejected ? `The service rejected this key. ${reason}` : reason),
    el("form", { class: "row", onsubmit: submit },
      el("label", { for: "key" }, "API key with the role read"),
      el("div", { class: "field" }, input, el("button", { type: "submit", class: "primary" }, "Sign in"))),
    el("p", { class: "hint" }, "The key stays in this browser tab until you close it. Create a key with ",
      el("code", {}, "rankloop serve --new-key me:read"), "."));
}
