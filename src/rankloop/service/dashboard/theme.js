// The theme: light, dark or system. The choice is stored in this browser.
import { fill, icon } from "./dom.js";

const STORAGE_KEY = "rankloop-theme";
const NEXT = { auto: "light", light: "dark", dark: "auto" };
const LABELS = { auto: "system", light: "light", dark: "dark" };
const ICONS = {
  auto: ["M12 4a8 8 0 1 0 0 16z", "M12 4a8 8 0 0 1 0 16"],
  light: ["M12 8.2a3.8 3.8 0 1 0 0 7.6 3.8 3.8 0 0 0 0-7.6z", "M12 3v2M12 19v2M3 12h2M19 12h2M5.6 5.6 7 7M17 17l1.4 1.4M5.6 18.4 7 17M17 7l1.4-1.4"],
  dark: ["M19.5 14.2A8 8 0 0 1 9.8 4.5a8 8 0 1 0 9.7 9.7z"],
};

const root = document.documentElement;
const current = () => root.dataset.theme ?? "auto";

function store(theme) {
  try {
    if (theme === "auto") localStorage.removeItem(STORAGE_KEY);
    else localStorage.setItem(STORAGE_KEY, theme);
  } catch {
    // Storage is blocked: the choice lasts until the page is closed.
  }
}

/** Make a button switch between the themes. */
export function themeButton(button) {
  const show = () => {
    const theme = current();
    button.setAttribute("aria-label", `Theme: ${LABELS[theme]}. Change to ${LABELS[NEXT[theme]]}`);
    button.title = `Theme: ${LABELS[theme]}`;
    fill(button, icon(ICONS[theme], theme === "auto" ? "half" : ""));
  };
  button.addEventListener("click", () => {
    const theme = NEXT[current()];
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    store(theme);
    show();
  });
  show();
}
