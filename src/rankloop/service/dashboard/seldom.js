// What is asked for now and then, and only while somebody can see it.
const SELDOM = 15000;
export const AGE = 10; // seconds that such numbers may be old: those who watch share one look of the service

/** Says when an element's numbers are due; `came` is called when it comes into view and they are. */
export class Seldom {
  #seen = false;
  #at = -Infinity;

  constructor(element, came) {
    new IntersectionObserver((entries) => {
      this.#seen = entries.at(-1).isIntersecting;
      if (this.due && this.#at > -Infinity) came();
    }).observe(element);
  }

  /** Whether to ask: at first, and then while it is in view and old enough. */
  get due() {
    return this.#at === -Infinity || (this.#seen && performance.now() - this.#at > SELDOM);
  }

  /** The numbers came. */
  done() {
    this.#at = performance.now();
  }
}
