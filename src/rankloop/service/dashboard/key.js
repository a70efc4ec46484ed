// The API key, for as long as this tab is open.
const NAME = "rankloop-key";
let held = null;

/** The key that was given here, if any. */
export function key() {
  try {
    return sessionStorage.getItem(NAME);
  } catch {
    return held; // storage is forbidden here
  }
}

/** Use a key from now on. */
export function keep(given) {
  held = given;
  try {
    sessionStorage.setItem(NAME, given);
  } catch {
    // The variable has it.
  }
}

/** Use none. */
export function forget() {
  held = null;
  try {
    sessionStorage.removeItem(NAME);
  } catch {
    // The variable had it.
  }
}
