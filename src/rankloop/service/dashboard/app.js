// The page around the views: which one is shown, whether the service answers, who may see it.
import { el, fill, say } from "./dom.js";
import { decisionView } from "./decision.js";
import { second } from "./format.js";
import { forget, key } from "./key.js";
import { lock } from "./lock.js";
import { Poll } from "./poll.js";
import { rankerView } from "./ranker.js";
import { rankersView } from "./rankers.js";
import { read, toRanker } from "./route.js";
import { themeButton } from "./theme.js";

const [main, notice, status, trail] = ["main", "notice", "status", "trail"].map((id) => document.getElementById(id));
const forgetting = document.getElementById("forget");
let showing = null; // view, poll and when it was last answered

function viewOf(route) {
  if (route.view === "rankers") return rankersView();
  if (route.view === "ranker") return rankerView(route.name, route.span);
  if (route.view === "decision") return decisionView(route.name, route.decision);
  return { title: "Nothing here", element: empty("There is nothing at this address.", back()) };
}

const back = () => el("p", {}, el("a", { href: "#/" }, "All rankers"));
const empty = (title, ...more) => el("div", { class: "empty" }, el("h1", { tabindex: -1 }, title), more);

function crumbs(route) {
  if (route.name === undefined) return [];
  const last = (text) => el("span", { "aria-current": "page" }, text);
  const home = el("li", {}, el("a", { href: "#/" }, "Rankers"));
  if (route.view === "ranker") return [el("ol", {}, home, el("li", {}, last(route.name)))];
  const ranker = el("li", {}, el("a", { href: toRanker(route.name) }, route.name));
  return [el("ol", {}, home, ranker, el("li", {}, last("Decision")))];
}

function tell(sentence) {
  notice.hidden = sentence === null;
  say(notice, sentence ?? "");
}

function light(state, words) {
  status.dataset.state = state;
  say(status, words);
}

function show() {
  const first = showing === null;
  showing?.poll?.stop();
  showing?.view.stop?.();
  const route = read(location.hash);
  const view = viewOf(route);
  document.title = view.title === "" ? "rankloop" : `${view.title} · rankloop`;
  fill(trail, crumbs(route));
  fill(main, view.element);
  forgetting.hidden = key() === null;
  tell(null);
  light("idle", "");
  const now = { view, poll: null, at: null };
  showing = now;
  if (view.ask) {
    light("waiting", "Connecting");
    now.poll = new Poll((signal) => view.ask(signal), {
      answer: (answer) => answered(now, answer),
      failed: (error) => failed(now, error),
      paused: () => light("paused", "Paused"),
    });
    view.again = () => now.poll.soon();
  }
  if (!first) arrive();
}

/** Somebody came here by a link: reading goes on at the new heading, from the top. */
function arrive() {
  window.scrollTo(0, 0);
  (main.querySelector("h1") ?? main).focus({ preventScroll: true });
}

function answered(now, answer) {
  if (now !== showing) return;
  if (!now.view.element.isConnected) fill(main, now.view.element); // what was missing is there
  now.at = Date.now() / 1000;
  now.view.show(answer);
  tell(null);
  light("live", "Live");
}

function failed(now, error) {
  if (now !== showing) return;
  if (error.locked) {
    now.poll.stop();
    tell(null);
    light("idle", "");
    forgetting.hidden = true;
    fill(main, lock(error.message, key() !== null, show));
    return;
  }
  if (error.missing) {
    tell(null);
    light("waiting", "Not found");
    if (now.view.element.isConnected) fill(main, empty("Not found", el("p", {}, error.message), back()));
    return;
  }
  if (error.status === undefined) console.error(error); // a fault of this page
  const old = now.at === null ? "" : ` The numbers below are from ${second(now.at)}.`;
  tell(`${error.status === undefined ? "The page failed to show an answer." : error.message}${old} Trying again until it does.`);
  light("down", "Not connected");
}

themeButton(document.getElementById("theme"));
forgetting.addEventListener("click", () => {
  forget();
  show();
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind # says which view is shown
  main.focus();
});
window.addEventListener("hashchange", show);
show();
