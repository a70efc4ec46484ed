// Request expensive data rarely, and only while the element that shows it is in view.
const REFRESH_MS = 15000;
export const MAX_AGE_SECONDS = 10; // age up to which the service may answer from its cache: viewers share one computation

/** Tracks when the data of an element is due; `onVisible` is called when the element scrolls into view with stale data. */
export class LazyPoll {
  #visible = false;
  #loadedAt = -Infinity;

  constructor(element, onVisible) {
    new IntersectionObserver((entries) => {
      this.#visible = entries.at(-1).isIntersecting;
      if (this.due && this.#loadedAt > -Infinity) onVisible();
    }).observe(element);
  }

  /** Whether to request the data: the first time, then while the element is visible and the data is stale. */
  get due() {
    return this.#loadedAt === -Infinity || (this.#visible && performance.now() - this.#loadedAt > REFRESH_MS);
  }

  /** Record that the data has been loaded. */
  done() {
    this.#loadedAt = performance.now();
  }
}
