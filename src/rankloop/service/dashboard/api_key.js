// The API key, stored for this browser tab only.
const STORAGE_KEY = "rankloop-key";
let memory = null;

/** The stored key, or null. */
export function currentKey() {
  try {
    return sessionStorage.getItem(STORAGE_KEY);
  } catch {
    return memory; // storage is blocked
  }
}

/** Store a key for all further requests. */
export function storeKey(key) {
  memory = key;
  try {
    sessionStorage.setItem(STORAGE_KEY, key);
  } catch {
    // Storage is blocked: the variable holds the key.
  }
}

/** Delete the stored key. */
export function forgetKey() {
  memory = null;
  try {
    sessionStorage.removeItem(STORAGE_KEY);
  } catch {
    // Storage is blocked: the variable held the key.
  }
}
