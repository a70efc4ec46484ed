// Poll the service: not while the tab is hidden, with exponential back-off while requests fail.
const INTERVAL_MS = 2000;
const MAX_BACKOFF_MS = 30000;
const LATENCY_FACTOR = 10; // wait at least this many times the latency, to spare a slow service
const MAX_INTERVAL_MS = 10000;

/** Milliseconds to wait after a request of this latency and this many failures in a row. */
export function delay(latency, failures) {
  if (failures > 0) return Math.min(MAX_BACKOFF_MS, INTERVAL_MS * 2 ** (failures - 1));
  return Math.max(INTERVAL_MS, Math.min(MAX_INTERVAL_MS, LATENCY_FACTOR * latency));
}

/** Calls `request(signal)` until stopped and passes results to `handlers`: `answer`, `failed` and `paused`. */
export class Poll {
  #request;
  #handlers;
  #timer = null;
  #running = null;
  #failures = 0;
  #stopped = false;

  constructor(request, handlers) {
    this.#request = request;
    this.#handlers = handlers;
    document.addEventListener("visibilitychange", this.#onVisibility);
    this.now();
  }

  /** Request now instead of waiting for the timer. */
  now() {
    clearTimeout(this.#timer);
    this.#running?.abort();
    if (!this.#stopped && !document.hidden) this.#once();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#running?.abort();
    document.removeEventListener("visibilitychange", this.#onVisibility);
  }

  #onVisibility = () => {
    if (document.hidden) {
      clearTimeout(this.#timer);
      this.#running?.abort(); // a response on its way would set the status to live
      this.#handlers.paused();
    } else {
      this.now();
    }
  };

  async #once() {
    const running = new AbortController();
    this.#running = running;
    const start = performance.now();
    try {
      const answer = await this.#request(running.signal);
      if (running.signal.aborted) return;
      this.#failures = 0;
      this.#handlers.answer(answer);
    } catch (error) {
      if (running.signal.aborted) return;
      this.#failures += 1;
      this.#handlers.failed(error);
    }
    if (!this.#stopped && !document.hidden) {
      this.#timer = setTimeout(() => this.#once(), delay(performance.now() - start, this.#failures));
    }
  }
}
