// Elements. What comes from the service becomes text and nothing else: no markup is ever parsed here.
const SVG = "http://www.w3.org/2000/svg";

function dress(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...wanted(children));
  return node;
}

/** All that is something, out of lists of lists. */
function wanted(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** An HTML element: attributes, listeners as `onclick`, children as nodes or text. */
export function el(name, attributes = {}, ...children) {
  return dress(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return dress(document.createElementNS(SVG, name), attributes, children);
}

/** Put these in the place of all that is in a node. */
export function fill(node, ...children) {
  node.replaceChildren(...wanted(children));
  return node;
}

/** A text that changes nothing in the page while it stays the same. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
  return node;
}

/** A small picture beside words. */
export function icon(paths, more = "") {
  const drawn = paths.map((d) => svg("path", { d }));
  return svg("svg", { class: `glyph ${more}`, viewBox: "0 0 24 24", width: 20, height: 20, "aria-hidden": "true" }, drawn);
}

let made = 0;

/** A name for an element that no other has. */
export function fresh(prefix) {
  made += 1;
  return `${prefix}-${made}`;
}

/** A section with a heading: what most of a page is made of. */
export function card(title, more = {}, ...children) {
  const id = fresh("card");
  const heading = el("h2", { id }, title);
  const head = el("div", { class: "card-head" }, heading, more.tools);
  const hint = more.hint ? el("p", { class: "hint" }, more.hint) : null;
  return el("section", { class: `card ${more.class ?? ""}`, "aria-labelledby": id }, head, hint, children);
}
