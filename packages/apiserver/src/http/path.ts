import { badRequest, failure } from '@oarlock/api/status';

/** The maximum length of a request target in characters. Sufficient for the selectors and exec commands of known clients. */
const maxTargetLength = 32 * 1024;
const maxSegments = 64;
const maxParameters = 1024;

/** The parts of a request target (path and query), decoded exactly once. */
export interface RequestTarget {
  /** The segments of the path, without empty first and last segments. */
  readonly segments: readonly string[];
  /** The decoded path without the query; a trailing slash is kept. */
  readonly path: string;
  readonly query: Query;
  /** The part of a proxy path after `/proxy`, not decoded, for the backend: '' or a path with a leading slash. Absent for other paths. */
  readonly rest?: string;
}

/** The query parameters: the first value of each, for `ApiRequest.query`, and all values, for lists such as `command`. */
export interface Query {
  readonly first: Readonly<Record<string, string | undefined>>;
  all(name: string): readonly string[];
}

// no prototype, because clients choose parameter names
const nothing: Readonly<Record<string, string | undefined>> = Object.freeze(Object.create(null) as Record<string, string | undefined>);
const none: readonly string[] = Object.freeze([]);
const noQuery: Query = { first: nothing, all: () => none };

/** Matches the part of a proxy path up to `/proxy`. The path of the backend follows. */
const proxyPath = /^\/api\/v1\/(?:namespaces\/[^/]+\/(?:pods|services)|nodes)\/[^/]+\/proxy(?=\/|$)/;

/**
 * Splits and decodes a request target. The target is decoded once and not normalized. A target that another parser could resolve to a different
 * resource is rejected: dot segments, empty segments, encoded slashes, NUL, or escapes that remain after decoding.
 * @throws StatusError `BadRequest` for such a target; a StatusError with code 414 if the target is too long
 */
export function parseTarget(target: string): RequestTarget {
  if (target.length > maxTargetLength)
    throw failure('BadRequest', `the request URI is longer than ${maxTargetLength} characters`, undefined, 414);
  if (target.charCodeAt(0) !== 47) throw badRequest('the request target has to be a path');
  const mark = target.indexOf('?');
  const path = mark < 0 ? target : target.slice(0, mark);
  const proxied = path.includes('/proxy') ? proxyPath.exec(path) : null;
  const own = proxied === null ? path : path.slice(0, proxied[0].length);
  const segments = parsePath(own);
  const decoded =
    proxied !== null ? `/${segments.join('/')}` : path.includes('%') ? `/${segments.join('/')}${path.endsWith('/') ? '/' : ''}` : path;
  return {
    segments,
    path: decoded,
    query: mark < 0 || mark === target.length - 1 ? noQuery : parseQuery(target.slice(mark + 1)),
    ...(proxied !== null && { rest: path.slice(own.length) }),
  };
}

function parsePath(path: string): readonly string[] {
  const segments = path.split('/');
  segments.shift();
  if (segments.at(-1) === '') segments.pop();
  if (segments.length > maxSegments) throw badRequest(`the request path has more than ${maxSegments} segments`);
  for (let i = 0; i < segments.length; i += 1) segments[i] = parseSegment(segments[i] ?? '');
  return segments;
}

function parseSegment(raw: string): string {
  let segment = raw;
  if (raw.includes('%')) {
    try {
      segment = decodeURIComponent(raw);
    } catch {
      throw badRequest(`invalid URL escape in path segment ${JSON.stringify(raw)}`);
    }
  }
  const error = segmentError(segment);
  if (error !== undefined) throw badRequest(`Name parameter invalid: ${JSON.stringify(segment)}: ${error}`);
  return segment;
}

/**
 * Returns the error of a path segment that `IsValidPathSegmentName` of apimachinery rejects, that is empty, or that contains control characters;
 * undefined if the segment is valid.
 */
function segmentError(segment: string): string | undefined {
  if (segment === '') return 'may not be empty';
  if (segment === '.' || segment === '..') return `may not be '${segment}'`;
  for (let i = 0; i < segment.length; i += 1) {
    const code = segment.charCodeAt(i);
    if (code === 47) return "may not contain '/'";
    if (code === 37) return "may not contain '%'";
    if (code < 32 || code === 127) return 'may not contain control characters';
  }
  return undefined;
}

function parseQuery(text: string): Query {
  const parameters = new URLSearchParams(text);
  if (parameters.size > maxParameters) throw badRequest(`the request has more than ${maxParameters} query parameters`);
  const first = Object.create(null) as Record<string, string | undefined>;
  for (const [name, value] of parameters) first[name] ??= value;
  return { first, all: (name) => parameters.getAll(name) };
}

/** Parses a boolean query parameter as Kubernetes does: every value except 'false' and '0' is true, including the empty string. */
export function isTrue(value: string | undefined): boolean {
  return value !== undefined && value !== '0' && value.toLowerCase() !== 'false';
}
