// Questions to the service. An answer, or a problem with the service's own sentence.
import { key } from "./key.js";

const PATIENCE = 10000;
const BASE = new URL("../v1/", document.baseURI);

/** What the service refused, or that it did not answer at all (status 0). */
export class Problem extends Error {
  constructor(detail, status) {
    super(detail);
    this.status = status;
  }

  /** A key is needed, or another one. */
  get locked() {
    return this.status === 401 || this.status === 403;
  }

  /** There is no such thing; asking again will hardly help. */
  get missing() {
    return this.status === 404;
  }
}

function address(steps, query) {
  const url = new URL(steps.map(encodeURIComponent).join("/"), BASE);
  for (const [name, value] of Object.entries(query)) if (value !== "" && value !== null) url.searchParams.set(name, value);
  return url;
}

async function refusal(response) {
  const told = await response.json().catch(() => ({}));
  const detail = typeof told.detail === "string" ? told.detail : `the service answered with status ${response.status}.`;
  return new Problem(detail.charAt(0).toUpperCase() + detail.slice(1), response.status);
}

/** Ask for what is at the steps of a path; `signal` ends the question. */
export async function get(steps, query = {}, signal = undefined) {
  const headers = { Accept: "application/json" };
  if (key() !== null) headers.Authorization = `Bearer ${key()}`;
  const ends = [AbortSignal.timeout(PATIENCE), ...(signal ? [signal] : [])];
  let response;
  try {
    response = await fetch(address(steps, query), { headers, cache: "no-store", signal: AbortSignal.any(ends) });
    if (response.ok) return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem("The service does not answer.", 0);
  }
  throw await refusal(response);
}
