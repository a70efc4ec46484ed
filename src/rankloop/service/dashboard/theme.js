// Light, dark, or as the system has it. What was chosen stays in this browser.
import { fill, icon } from "./dom.js";

const KEY = "rankloop-theme";
const NEXT = { auto: "light", light: "dark", dark: "auto" };
const WORDS = { auto: "as the system", light: "light", dark: "dark" };
const ICONS = {
  auto: ["M12 4a8 8 0 1 0 0 16z", "M12 4a8 8 0 0 1 0 16"],
  light: ["M12 8.2a3.8 3.8 0 1 0 0 7.6 3.8 3.8 0 0 0 0-7.6z", "M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M5.6 18.4 7 17M17 7l1.4-1.4"],
  dark: ["M19.5 14.2A8 8 0 0 1 9.8 4.5a8 8 0 1 0 9.7 9.7z"],
};

const root = document.documentElement;
const current = () => root.dataset.theme ?? "auto";

function remember(theme) {
  try {
    if (theme === "auto") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Storage is forbidden here: the choice lasts as long as the page.
  }
}

/** Make a button switch themes. */
export function themeButton(button) {
  const show = () => {
    const theme = current();
    button.setAttribute("aria-label", `Theme: ${WORDS[theme]}. Change to ${WORDS[NEXT[theme]]}`);
    button.title = `Theme: ${WORDS[theme]}`;
    fill(button, icon(ICONS[theme], theme === "auto" ? "half" : ""));
  };
  button.addEventListener("click", () => {
    const theme = NEXT[current()];
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    remember(theme);
    show();
  });
  show();
}
