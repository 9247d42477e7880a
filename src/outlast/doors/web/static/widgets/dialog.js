/** Modal dialogs: a yes-or-no question, or a few fields. Escape means no. */

import { el } from "../lib/dom.js";

/** Resolves to the values of the fields by name, or to null. A field: {name, label, type, value, placeholder, hint,
 *  required, options}, its type text, checkbox or select. */
export function ask({ title, text, fields = [], confirm = "OK", danger = false }) {
  return new Promise((resolve) => {
    const heading = el("h2", { id: "dialog-title" }, title);
    const form = el("form", {}, heading, text ? el("p", {}, text) : null);
    const inputs = fields.map((field) => {
      const [label, input] = fieldOf(field);
      form.append(label);
      return [field, input];
    });
    const cancel = el("button.quiet", { type: "button" }, "Cancel");
    const yes = el(`button.${danger ? "danger" : "primary"}`, { type: "submit" }, confirm);
    form.append(el("div.dialog-buttons", {}, cancel, yes));
    const dialog = el("dialog.dialog", { "aria-labelledby": "dialog-title" }, form);
    let answer = null;
    cancel.addEventListener("click", () => dialog.close());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer = Object.fromEntries(
        inputs.map(([field, input]) => [field.name, field.type === "checkbox" ? input.checked : input.value]),
      );
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
    (inputs.find(([field]) => field.type !== "checkbox")?.[1] ?? (danger ? cancel : yes)).focus();
    inputs[0]?.[1].select?.();
  });
}

function fieldOf({ name, label, type = "text", value = "", placeholder, hint, required, options = [] }) {
  const id = `field-${name}`;
  if (type === "checkbox") {
    const box = el("input", { type: "checkbox", id, name, checked: Boolean(value) });
    return [el("label.check", { for: id }, box, label), box];
  }
  if (type === "select") {
    const chosen = el(
      "select",
      { id, name },
      options.map(([option, words]) => el("option", { value: option, selected: option === value }, words)),
    );
    return [el("div.field", {}, el("label", { for: id }, label), chosen, hint ? el("small", {}, hint) : null), chosen];
  }
  const input = el("input", {
    type: "text",
    id,
    name,
    placeholder,
    value,
    required,
    autocomplete: "off",
    spellcheck: "false",
  });
  return [el("div.field", {}, el("label", { for: id }, label), input, hint ? el("small", {}, hint) : null), input];
}

/** A panel to read. */
export function panel(title, ...children) {
  const close = el("button.primary", { type: "button" }, "Close");
  const dialog = el(
    "dialog.dialog.reading",
    { "aria-labelledby": "panel-title" },
    el("h2", { id: "panel-title" }, title),
    children,
    el("div.dialog-buttons", {}, close),
  );
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  close.focus({ preventScroll: true }); // it is read from its beginning
  dialog.scrollTop = 0;
}
