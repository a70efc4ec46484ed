// Ask, show, wait, ask again: not while the tab is hidden, and less and less often while it fails.
const EVERY = 2000;
const SLOWEST = 30000;
const TIMES = 10; // waiting so many times as long as an answer took spares a service that is slow
const CALMEST = 10000;

/** How long to wait after an answer that took so long, and after so many failures in a row. */
export function pause(took, failures) {
  if (failures > 0) return Math.min(SLOWEST, EVERY * 2 ** (failures - 1));
  return Math.max(EVERY, Math.min(CALMEST, TIMES * took));
}

/** Asks until it is stopped. `ask(signal)` gives an answer; `told` hears `answer`, `failed` and `paused`. */
export class Poll {
  #ask;
  #told;
  #timer = null;
  #asking = null;
  #failures = 0;
  #stopped = false;

  constructor(ask, told) {
    this.#ask = ask;
    this.#told = told;
    document.addEventListener("visibilitychange", this.#seen);
    this.soon();
  }

  /** Ask now, whatever was being waited for. */
  soon() {
    clearTimeout(this.#timer);
    this.#asking?.abort();
    if (!this.#stopped && !document.hidden) this.#once();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#asking?.abort();
    document.removeEventListener("visibilitychange", this.#seen);
  }

  #seen = () => {
    if (document.hidden) {
      clearTimeout(this.#timer);
      this.#asking?.abort(); // an answer on its way would say that it is live
      this.#told.paused();
    } else {
      this.soon();
    }
  };

  async #once() {
    const asking = new AbortController();
    this.#asking = asking;
    const start = performance.now();
    try {
      const answer = await this.#ask(asking.signal);
      if (asking.signal.aborted) return;
      this.#failures = 0;
      this.#told.answer(answer);
    } catch (error) {
      if (asking.signal.aborted) return;
      this.#failures += 1;
      this.#told.failed(error);
    }
    if (!this.#stopped && !document.hidden) {
      this.#timer = setTimeout(() => this.#once(), pause(performance.now() - start, this.#failures));
    }
  }
}
