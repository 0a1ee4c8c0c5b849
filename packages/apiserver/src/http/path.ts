import { badRequest, failure } from '@oarlock/api/status';

/** Bound of a request target, in characters: more than the selectors and exec commands of known clients need. */
const maxTargetLength = 32 * 1024;
const maxSegments = 64;
const maxParameters = 1024;

/** The parts of a request target, decoded exactly once. */
export interface RequestTarget {
  /** Segments of the path, without an empty first or last one. */
  readonly segments: readonly string[];
  /** The decoded path without the query; a trailing slash is kept. */
  readonly path: string;
  readonly query: Query;
  /** The part after `/proxy` of a pod, service or node, not decoded, for the backend: '' or a path with a leading slash. */
  readonly rest?: string;
}

/** The parameters of a request: first values by name, for `ApiRequest.query`, and all values, for lists such as `command`. */
export interface Query {
  readonly first: Readonly<Record<string, string | undefined>>;
  all(name: string): readonly string[];
}

// no prototype, because clients choose parameter names
const nothing: Readonly<Record<string, string | undefined>> = Object.freeze(Object.create(null) as Record<string, string | undefined>);
const none: readonly string[] = Object.freeze([]);
const noQuery: Query = { first: nothing, all: () => none };

/** Matches a path up to `/proxy`, after which the backend's path begins. */
const proxyPath = /^\/api\/v1\/(?:namespaces\/[^/]+\/(?:pods|services)|nodes)\/[^/]+\/proxy(?=\/|$)/;

/**
 * Splits and decodes a request target. It is decoded once and not normalized: targets that another parser could resolve to a different
 * resource (dot segments, empty segments, encoded slashes, NUL, escapes that remain after decoding) are rejected.
 * @throws StatusError `BadRequest`; code 414 if the target is too long
 */
export function parseTarget(target: string): RequestTarget {
  if (target.length > maxTargetLength)
    throw failure('BadRequest', `the request URI is longer than ${maxTargetLength} characters`, undefined, 414);
  if (target.charCodeAt(0) !== 47) throw badRequest('the request target has to be a path');
  const mark = target.indexOf('?');
  const path = mark < 0 ? target : target.slice(0, mark);
  const proxied = proxyPath.exec(path);
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

/** Returns the error of `IsValidPathSegmentName` of apimachinery, or one for empty segments and control characters. */
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

/** Parses a boolean parameter as Kubernetes does: all values except 'false' and '0' are true, also the empty string. */
export function isTrue(value: string | undefined): boolean {
  return value !== undefined && value !== '0' && value.toLowerCase() !== 'false';
}
