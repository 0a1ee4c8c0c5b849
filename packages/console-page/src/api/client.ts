import { storedPageKey } from './page-key.ts';

/** A response of the API server with an error status. */
export class ApiError extends Error {
  readonly code: number;
  readonly reason: string;
  constructor(code: number, reason: string, message: string) {
    super(message);
    this.name = 'ApiError';
    this.code = code;
    this.reason = reason;
  }
}

/** The fields of every object that the page reads. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
  readonly [field: string]: unknown;
}
export interface ObjectMeta {
  readonly name: string;
  readonly generateName?: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly OwnerReference[];
  readonly managedFields?: readonly ManagedFieldsEntry[];
}
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
}
export interface ManagedFieldsEntry {
  readonly manager?: string;
  readonly operation?: string;
  readonly subresource?: string;
  readonly time?: string;
  readonly fieldsV1?: Readonly<Record<string, unknown>>;
}
export interface ObjectList<T = KubeObject> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string; readonly remainingItemCount?: number };
  readonly items: readonly T[];
}

export interface Impersonation {
  readonly user: string;
  readonly groups: readonly string[];
}

export interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly accept?: string;
  readonly body?: string;
  readonly contentType?: string;
  readonly signal?: AbortSignal;
  readonly headers?: Readonly<Record<string, string>>;
  /** The user of this request, instead of the client's. */
  readonly as?: Impersonation | undefined;
}

type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Returns a path with the parameters that have a value. */
export function withQuery(path: string, query: RequestOptions['query'] = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== '') parameters.set(name, String(value));
  const text = parameters.toString();
  return text === '' ? path : `${path}?${text}`;
}

/**
 * A client of the API server that served the page. A cookie that the script cannot read authenticates it, together with the key of the page, which
 * alone is no credential.
 */
export class ApiClient {
  readonly #fetch: Fetch;
  readonly #pageKey: () => string;
  #prefetched: { readonly key: string; readonly value: Promise<unknown> } | undefined;
  /** Called when the server rejects the session. */
  onUnauthorized: () => void = () => undefined;
  /** The user whose permissions the requests have instead of one's own. */
  impersonation: Impersonation | undefined;

  constructor(send: Fetch = (url, init) => fetch(url, init), pageKey: () => string = storedPageKey) {
    this.#fetch = send;
    this.#pageKey = pageKey;
  }

  /** Sends a request. @throws ApiError for an error status; TypeError if the server cannot be reached */
  async send(path: string, options: RequestOptions = {}): Promise<Response> {
    const { method = 'GET', query, accept = 'application/json', body, contentType, signal, headers, as = this.impersonation } = options;
    const sent = new Headers({ Accept: accept, 'X-Oarlock-Console': this.#pageKey(), ...headers });
    if (body !== undefined) sent.set('Content-Type', contentType ?? 'application/json');
    if (as !== undefined && !path.startsWith('/console/')) {
      sent.set('Impersonate-User', as.user);
      for (const group of as.groups) sent.append('Impersonate-Group', group);
    }
    const response = await this.#fetch(withQuery(path, query), {
      method,
      headers: sent,
      credentials: 'same-origin',
      cache: 'no-store',
      ...(body !== undefined && { body }),
      ...(signal && { signal }),
    });
    if (response.ok) return response;
    if (response.status === 401) this.onUnauthorized();
    throw await apiErrorOf(response);
  }

  /** Sends a request before it is needed. The next `json` with the same request uses its response; one response is kept. */
  prefetch(path: string, options: Pick<RequestOptions, 'query' | 'accept'>): void {
    const prefetched = { key: keyOf(path, options), value: this.#read(path, options) };
    this.#prefetched = prefetched;
    // a request that failed, such as one before the sign-in, is sent again when it is needed
    prefetched.value.catch(() => {
      if (this.#prefetched === prefetched) this.#prefetched = undefined;
    });
  }

  async json<T>(path: string, options: RequestOptions = {}): Promise<T> {
    const prefetched = this.#prefetched;
    const isSame =
      options.method === undefined &&
      this.impersonation === undefined &&
      options.as === undefined &&
      prefetched?.key === keyOf(path, options);
    if (!isSame) return this.#read(path, options);
    this.#prefetched = undefined;
    return prefetched.value as Promise<T>;
  }

  async #read<T>(path: string, options: RequestOptions): Promise<T> {
    return (await (await this.send(path, options)).json()) as T;
  }

  async text(path: string, options?: RequestOptions): Promise<string> {
    return (await this.send(path, { accept: '*/*', ...options })).text();
  }
}

/** Returns what identifies a read. */
const keyOf = (path: string, { query, accept = '' }: Pick<RequestOptions, 'query' | 'accept'>): string =>
  `${accept} ${withQuery(path, query)}`;

async function apiErrorOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const { message, reason } = JSON.parse(text) as { readonly message?: string; readonly reason?: string };
    return new ApiError(response.status, reason ?? '', message ?? text);
  } catch {
    return new ApiError(response.status, '', text === '' ? response.statusText : text.slice(0, 1000));
  }
}

export const isApiError = (error: unknown, ...codes: readonly number[]): error is ApiError =>
  error instanceof ApiError && (codes.length === 0 || codes.includes(error.code));

export const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error));
