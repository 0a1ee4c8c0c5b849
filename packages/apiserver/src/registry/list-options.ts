import { everythingFieldSelector, parseFieldSelector, unsupportedField, type FieldSelector } from '@oarlock/api/selectors/field-selector';
import { fieldForbidden, notSupportedInOrder, notSupported, type FieldError } from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { goText } from '@oarlock/api/json/go-print';
import { isObject } from '@oarlock/api/json/json';
import { goSyntaxError } from '@oarlock/api/json/syntax-error';
import { everything, parseLabelSelector, type Selector } from '@oarlock/api/selectors/label-selector';
import { ParseError } from '@oarlock/api/values/parse-error';
import { badRequest, failure } from '@oarlock/api/status';
import type { FieldReaders } from '../watch-cache/selection.ts';

type Query = Readonly<Record<string, string | undefined>>;

/** The parsed and validated `metav1.ListOptions`. */
export interface ListOptions {
  readonly labels: Selector;
  readonly fields: FieldSelector;
  /** The maximum number of items of the page; 0 for a list without pages. */
  readonly limit: number;
  readonly token: ContinueToken | undefined;
  /** The requested resourceVersion; undefined for the newest state, 0 for any cached state. */
  readonly revision: number | undefined;
  readonly match: 'Exact' | 'NotOlderThan' | undefined;
}
export interface WatchOptions extends Pick<ListOptions, 'labels' | 'fields' | 'revision'> {
  readonly bookmarks: boolean;
  readonly sendInitialEvents: boolean | undefined;
  readonly timeoutSeconds: number | undefined;
}

/** The position at which a paged list continues: after a key, at a revision. Revision -1 continues at the current revision. */
export interface ContinueToken {
  readonly revision: number;
  readonly after: string;
}

/** Parses the query of a list. @throws StatusError BadRequest or Invalid if a parameter is invalid */
export function parseListOptions(query: Query, readers: FieldReaders): ListOptions {
  const errors: FieldError[] = [];
  const { resourceVersion = '', resourceVersionMatch: match = '', continue: token = '' } = query;
  if (match !== '') {
    if (resourceVersion === '')
      errors.push(fieldForbidden('resourceVersionMatch', 'resourceVersionMatch is forbidden unless resourceVersion is provided'));
    if (token !== '') errors.push(fieldForbidden('resourceVersionMatch', 'resourceVersionMatch is forbidden when continue is provided'));
    if (match !== 'Exact' && match !== 'NotOlderThan')
      errors.push(notSupportedInOrder('resourceVersionMatch', match, ['Exact', 'NotOlderThan', '']));
    if (match === 'Exact' && resourceVersion === '0')
      errors.push(fieldForbidden('resourceVersionMatch', 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'));
  }
  if (query['sendInitialEvents'] !== undefined) errors.push(fieldForbidden('sendInitialEvents', 'sendInitialEvents is forbidden for list'));
  throwIfInvalid(errors);
  const revision = parseResourceVersion(resourceVersion);
  if (token !== '' && revision !== undefined && revision !== 0)
    throw badRequest('specifying resource version is not allowed when using continue');
  const limit = parseInt64(query['limit']) ?? 0;
  parseInt64(query['timeoutSeconds']);
  return {
    ...parseSelectors(query, readers),
    // resourceVersion=0 accepts any state, and the response is never paged
    limit: revision === 0 ? 0 : Math.max(0, limit),
    token: token === '' ? undefined : parseContinueToken(token),
    revision,
    match:
      match === 'Exact' || match === 'NotOlderThan' ? match : limit > 0 && revision !== undefined && revision !== 0 ? 'Exact' : undefined,
  };
}

/** Parses the query of a watch. @throws StatusError BadRequest or Invalid if a parameter is invalid */
export function parseWatchOptions(query: Query, readers: FieldReaders): WatchOptions {
  const errors: FieldError[] = [];
  const { resourceVersion = '', resourceVersionMatch: match = '' } = query;
  const sendInitialEvents = parseBoolean('sendInitialEvents', query['sendInitialEvents']);
  if (sendInitialEvents !== undefined && match !== 'NotOlderThan') {
    errors.push(fieldForbidden('resourceVersionMatch', 'sendInitialEvents requires setting resourceVersionMatch to NotOlderThan'));
  }
  if (match !== '') {
    if (sendInitialEvents === undefined)
      errors.push(
        fieldForbidden('resourceVersionMatch', 'resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided'),
      );
    if (match !== 'NotOlderThan') errors.push(notSupported('resourceVersionMatch', match, ['NotOlderThan']));
  }
  // a watch that starts at the current state has an implicit match
  const matches = match !== '' || (sendInitialEvents === undefined && (resourceVersion === '' || resourceVersion === '0'));
  if (matches && (query['continue'] ?? '') !== '')
    errors.push(fieldForbidden('resourceVersionMatch', 'resourceVersionMatch is forbidden when continue is provided'));
  throwIfInvalid(errors);
  const timeoutSeconds = parseInt64(query['timeoutSeconds']);
  return {
    ...parseSelectors(query, readers),
    revision: parseResourceVersion(resourceVersion),
    bookmarks: parseBoolean('allowWatchBookmarks', query['allowWatchBookmarks']) ?? false,
    sendInitialEvents,
    timeoutSeconds: timeoutSeconds === undefined || timeoutSeconds <= 0 ? undefined : timeoutSeconds,
  };
}

function parseSelectors(query: Query, readers: FieldReaders): { readonly labels: Selector; readonly fields: FieldSelector } {
  const { labelSelector = '', fieldSelector = '' } = query;
  try {
    const labels = labelSelector === '' ? everything : parseLabelSelector(labelSelector);
    const fields = fieldSelector === '' ? everythingFieldSelector : parseFieldSelector(fieldSelector);
    const unknown = fields.empty ? undefined : unsupportedField(fields, supportedFields(readers));
    if (unknown !== undefined) throw badRequest(unknown);
    return { labels, fields };
  } catch (error) {
    if (error instanceof ParseError) throw badRequest(error.message);
    throw error;
  }
}

const supportedFieldsByReaders = new WeakMap<FieldReaders, ReadonlySet<string>>();
function supportedFields(readers: FieldReaders): ReadonlySet<string> {
  let fields = supportedFieldsByReaders.get(readers);
  if (fields === undefined) supportedFieldsByReaders.set(readers, (fields = new Set(Object.keys(readers))));
  return fields;
}

/** Parses a resourceVersion parameter; returns undefined if it is empty. @throws StatusError BadRequest if it is not a resource version */
export function parseResourceVersion(text: string): number | undefined {
  if (text === '') return undefined;
  const revision = Number(text);
  if (/^\d{1,20}$/.test(text) && Number.isSafeInteger(revision)) return revision;
  throw badRequest(
    `invalid resource version: resourceVersion: Invalid value: ${JSON.stringify(text)}: strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax`,
  );
}

function throwIfInvalid(errors: readonly FieldError[]): void {
  if (errors.length > 0) throw invalidStatus({ group: 'meta.k8s.io', kind: 'ListOptions', name: '' }, errors);
}

function parseBoolean(name: string, text: string | undefined): boolean | undefined {
  if (text === undefined) return undefined;
  if (text === '' || text === '1' || text.toLowerCase() === 'true' || text === 't') return true;
  if (text === '0' || text.toLowerCase() === 'false' || text === 'f') return false;
  throw badRequest(`unable to convert ${name}: strconv.ParseBool: parsing ${JSON.stringify(text)}: invalid syntax`);
}

function parseInt64(text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined;
  const value = Number(text);
  if (/^-?\d{1,19}$/.test(text) && Number.isSafeInteger(value)) return value;
  throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`);
}

/** Encodes a continue token, whose format is opaque to clients. */
export function formatContinueToken({ revision, after }: ContinueToken): string {
  return Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: revision, start: `${after}\0` })).toString('base64url');
}

/** Returns the offset at which Go's base64.RawURLEncoding reports corrupt input, also for a truncated last group; undefined if the text is valid. */
function base64Error(text: string): number | undefined {
  const at = text.search(/[^\w-]/);
  if (at >= 0) return at;
  return text.length % 4 === 1 ? text.length - 1 : undefined;
}

function parseContinueToken(text: string): ContinueToken {
  const wrong = (why: string) => badRequest(`invalid continue token: continue key is not valid: ${why}`);
  const bad = base64Error(text);
  if (bad !== undefined) throw wrong(`illegal base64 data at input byte ${bad}`);
  const json = Buffer.from(text, 'base64url').toString('utf8');
  const fault = goSyntaxError(json);
  if (fault !== undefined) throw wrong(fault);
  const value: unknown = JSON.parse(json);
  const { v = '', rv, start = '' } = (isObject(value) ? value : {}) as Readonly<Record<'v' | 'rv' | 'start', unknown>>;
  if (v !== 'meta.k8s.io/v1') throw wrong(`server does not recognize this encoded version ${goText(v)}`);
  if (typeof rv !== 'number' || !Number.isSafeInteger(rv) || rv === 0 || rv < -1)
    throw wrong('incorrect encoded start resourceVersion (version meta.k8s.io/v1)');
  if (typeof start !== 'string' || start === '') throw wrong('encoded start key empty (version meta.k8s.io/v1)');
  if (!start.endsWith('\0') || start.length < 2) throw wrong(start);
  return { revision: rv, after: start.slice(0, -1) };
}

/** Returns the Expired error of a page whose revision was compacted. The continue token in the error continues the list at the current revision. */
export function inconsistentContinueToken(after: string) {
  const error = failure(
    'Expired',
    'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.',
  );
  return { ...error.status, metadata: { continue: formatContinueToken({ revision: -1, after }) } };
}
