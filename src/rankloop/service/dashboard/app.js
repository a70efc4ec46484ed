// The page frame: selects the view, shows the connection status, asks for an API key.
import { currentKey, forgetKey } from "./api_key.js";
import { el, fill, say } from "./dom.js";
import { decisionView } from "./decision.js";
import { second } from "./format.js";
import { keyForm } from "./key_form.js";
import { Poll } from "./poll.js";
import { rankerView } from "./ranker.js";
import { rankersView } from "./rankers.js";
import { parseRoute, toRanker } from "./route.js";
import { themeButton } from "./theme.js";

const [main, notice, status, trail] = ["main", "notice", "status", "trail"].map((id) => document.getElementById(id));
const forgetButton = document.getElementById("forget");
let active = null; // the view, its poll and the time of its last answer

function viewOf(route) {
  if (route.view === "rankers") return rankersView();
  if (route.view === "ranker") return rankerView(route.name, route.span);
  if (route.view === "decision") return decisionView(route.name, route.decision);
  return { title: "Page not found", element: empty("Page not found", back()) };
}

const back = () => el("p", {}, el("a", { href: "#/" }, "All rankers"));
const empty = (title, ...details) => el("div", { class: "empty" }, el("h1", { tabindex: -1 }, title), details);

function crumbs(route) {
  if (route.name === undefined) return [];
  const last = (text) => el("span", { "aria-current": "page" }, text);
  const home = el("li", {}, el("a", { href: "#/" }, "Rankers"));
  if (route.view === "ranker") return [el("ol", {}, home, el("li", {}, last(route.name)))];
  const ranker = el("li", {}, el("a", { href: toRanker(route.name) }, route.name));
  return [el("ol", {}, home, ranker, el("li", {}, last("Decision")))];
}

function showNotice(sentence) {
  notice.hidden = sentence === null;
  say(notice, sentence ?? "");
}

function setStatus(state, label) {
  status.dataset.state = state;
  say(status, label);
}

function show() {
  const first = active === null;
  active?.poll?.stop();
  active?.view.stop?.();
  const route = parseRoute(location.hash);
  const view = viewOf(route);
  document.title = view.title === "" ? "rankloop" : `${view.title} · rankloop`;
  fill(trail, crumbs(route));
  fill(main, view.element);
  forgetButton.hidden = currentKey() === null;
  showNotice(null);
  setStatus("idle", "");
  const now = { view, poll: null, at: null };
  active = now;
  if (view.request) {
    setStatus("waiting", "Connecting");
    now.poll = new Poll((signal) => view.request(signal), {
      answer: (answer) => answered(now, answer),
      failed: (error) => failed(now, error),
      paused: () => setStatus("paused", "Paused"),
    });
    view.refresh = () => now.poll.now();
  }
  if (!first) focusHeading();
}

/** After a navigation: scroll to the top and move the focus to the new heading. */
function focusHeading() {
  window.scrollTo(0, 0);
  (main.querySelector("h1") ?? main).focus({ preventScroll: true });
}

function answered(now, answer) {
  if (now !== active) return;
  if (!now.view.element.isConnected) fill(main, now.view.element); // the object was not found before and exists now
  now.at = Date.now() / 1000;
  now.view.show(answer);
  showNotice(null);
  setStatus("live", "Live");
}

function failed(now, error) {
  if (now !== active) return;
  if (error.unauthorized) {
    now.poll.stop();
    showNotice(null);
    setStatus("idle", "");
    forgetButton.hidden = true;
    fill(main, keyForm(error.message, currentKey() !== null, show));
    return;
  }
  if (error.notFound) {
    showNotice(null);
    setStatus("waiting", "Not found");
    if (now.view.element.isConnected) fill(main, empty("Not found", el("p", {}, error.message), back()));
    return;
  }
  if (error.status === undefined) console.error(error); // a bug of this page
  const age = now.at === null ? "" : ` The numbers below are from ${second(now.at)}.`;
  showNotice(`${error.status === undefined ? "The page cannot display the response." : error.message}${age} Retrying.`);
  setStatus("down", "Disconnected");
}

themeButton(document.getElementById("theme"));
forgetButton.addEventListener("click", () => {
  forgetKey();
  show();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment selects the view
  main.focus();
});
window.addEventListener("hashchange", show);
show();
