// DOM helpers. Data from the service is only ever set as text: nothing here parses markup.
const SVG = "http://www.w3.org/2000/svg";

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...flatten(children));
  return node;
}

/** Nested lists of children as one list without null, undefined and false. */
function flatten(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** An HTML element: attributes, listeners as `onclick`, children as nodes or text. */
export function el(name, attributes = {}, ...children) {
  return build(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, name), attributes, children);
}

/** Replace all children of a node. */
export function fill(node, ...children) {
  node.replaceChildren(...flatten(children));
  return node;
}

/** Set a text, without touching the page if it is unchanged. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
  return node;
}

/** A decorative icon. */
export function icon(paths, className = "") {
  const drawn = paths.map((d) => svg("path", { d }));
  return svg("svg", { class: `glyph ${className}`, viewBox: "0 0 24 24", width: 20, height: 20, "aria-hidden": "true" }, drawn);
}

let ids = 0;

/** An element id that is unique in the page. */
export function fresh(prefix) {
  ids += 1;
  return `${prefix}-${ids}`;
}

/** A container in which a wide table scrolls horizontally; it is focusable, so that the keyboard can scroll it. */
export function tableRegion(label, className = "", ...children) {
  return el("div", { class: `table-region ${className}`, tabindex: 0, role: "region", "aria-label": label }, children);
}

/** A section with a heading; options: class, hint and tools (controls beside the heading). */
export function card(title, options = {}, ...children) {
  const id = fresh("card");
  const heading = el("h2", { id }, title);
  const head = el("div", { class: "card-head" }, heading, options.tools);
  const hint = options.hint ? el("p", { class: "hint" }, options.hint) : null;
  return el("section", { class: `card ${options.class ?? ""}`, "aria-labelledby": id }, head, hint, children);
}
