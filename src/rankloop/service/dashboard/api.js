// Requests to the service: JSON on success, an ApiError with the service's message otherwise.
import { currentKey } from "./api_key.js";

const TIMEOUT_MS = 10000;
const BASE = new URL("../v1/", document.baseURI);

/** A refused request, or one without a response (status 0). */
export class ApiError extends Error {
  constructor(detail, status) {
    super(detail);
    this.status = status;
  }

  /** Whether the request needs a key, or one with another role. */
  get unauthorized() {
    return this.status === 401 || this.status === 403;
  }

  /** Whether the requested object does not exist. */
  get notFound() {
    return this.status === 404;
  }
}

function address(segments, query) {
  const url = new URL(segments.map(encodeURIComponent).join("/"), BASE);
  for (const [name, value] of Object.entries(query)) if (value !== "" && value !== null) url.searchParams.set(name, value);
  return url;
}

async function errorOf(response) {
  const problem = await response.json().catch(() => ({}));
  const detail = typeof problem.detail === "string" ? problem.detail : `the service answered with status ${response.status}.`;
  return new ApiError(detail.charAt(0).toUpperCase() + detail.slice(1), response.status);
}

/** GET the path below /v1/ given by its segments; `signal` aborts the request. */
export async function get(segments, query = {}, signal = undefined) {
  const headers = { Accept: "application/json" };
  if (currentKey() !== null) headers.Authorization = `Bearer ${currentKey()}`;
  const signals = [AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])];
  let response;
  try {
    response = await fetch(address(segments, query), { headers, cache: "no-store", signal: AbortSignal.any(signals) });
    if (response.ok) return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("The service does not respond.", 0);
  }
  throw await errorOf(response);
}
