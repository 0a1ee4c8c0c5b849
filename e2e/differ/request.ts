/** A request to an API server. Strings may contain placeholders: `%{run}`, `%{namespace}`, and `%{0.metadata.uid}` for a field of an earlier answer. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD' | 'OPTIONS';
  /** Path with query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A string or bytes are sent as they are; other values as JSON. */
  readonly body?: unknown;
}

export interface Answer {
  readonly status: number;
  /** Lower-case names; repeated headers are joined by newlines. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Requests that are sent one after another. */
export interface RequestCase {
  /** Unique and stable: recordings and accepted differences refer to it. */
  readonly id: string;
  readonly steps: readonly ApiRequest[];
}

/** The values of the placeholders that do not depend on answers. */
export interface RunNames {
  /** A name that is unique for the run; a DNS label. */
  readonly run: string;
  readonly namespace: string;
}

export type Fields = Record<string, unknown>;

export const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the value at a dotted path such as `metadata.uid` or `items.0.metadata.name`. */
export function valueAt(value: unknown, path: string): unknown {
  let current = value;
  for (const key of path.split('.')) {
    if (typeof current !== 'object' || current === null) return undefined;
    current = (current as Fields)[key];
  }
  return current;
}

const placeholder = /%\{([^}]+)\}/g;

function resolveText(text: string, names: RunNames, earlier: readonly unknown[]): string {
  return text.replace(placeholder, (whole, name: string) => {
    if (name === 'run') return names.run;
    if (name === 'namespace') return names.namespace;
    const [step = '', ...path] = name.split('.');
    if (!/^\d+$/.test(step)) return whole;
    const found = valueAt(earlier[Number(step)], path.join('.'));
    return found === undefined ? '' : String(found);
  });
}

function resolveValue(value: unknown, names: RunNames, earlier: readonly unknown[]): unknown {
  if (typeof value === 'string') return resolveText(value, names, earlier);
  if (Buffer.isBuffer(value)) return value;
  if (Array.isArray(value)) return value.map((each) => resolveValue(each, names, earlier));
  if (!isFields(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [resolveText(key, names, earlier), resolveValue(each, names, earlier)]),
  );
}

/** Returns the request with its placeholders replaced; `earlier` holds the parsed bodies of the earlier answers of the case. */
export function resolveRequest(request: ApiRequest, names: RunNames, earlier: readonly unknown[]): ApiRequest {
  return {
    ...request,
    path: resolveText(request.path, names, earlier),
    ...(request.body !== undefined && { body: resolveValue(request.body, names, earlier) }),
  };
}

/** Returns the bytes of a request body, or undefined without one. */
export function bodyBytes(body: unknown): Buffer | undefined {
  if (body === undefined) return undefined;
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}

/** Returns the parsed JSON of an answer; undefined if the body is no JSON. */
export function jsonOf({ headers, body }: Pick<Answer, 'headers' | 'body'>): unknown {
  if (!(headers['content-type'] ?? '').startsWith('application/json')) return undefined;
  try {
    return JSON.parse(body.toString('utf8')) as unknown;
  } catch {
    return undefined; // a body that is no JSON is compared as text
  }
}

/** Returns one line that identifies a request in reports. */
export function describeRequest({ method, path, headers = {}, body }: ApiRequest): string {
  const named = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const text =
    body === undefined ? '' : Buffer.isBuffer(body) ? `<${body.length} bytes>` : typeof body === 'string' ? body : JSON.stringify(body);
  return [method, path, ...named, text.length > 2000 ? `${text.slice(0, 2000)}...` : text].filter((part) => part !== '').join(' ');
}

/** The error if a file of the caller is not in the documented format. */
export class InputError extends Error {
  override readonly name = 'InputError';
}
