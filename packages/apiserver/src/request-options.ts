import {
  fieldForbidden,
  invalid,
  invalidStatus,
  notListed,
  notSupported,
  required,
  tooLong,
  type FieldError,
} from '@oarlock/api/field-error';
import { isObject } from '@oarlock/api/json';
import { schemaOf } from '@oarlock/api/schema';
import { badRequest } from '@oarlock/api/status';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { conformed } from './body.ts';

type Query = ApiRequest['query'];

/** The longest name of a manager, in bytes. */
export const maxManager = 128;

/** Checks what every write has in its query. @throws StatusError Invalid */
export function checkWriteOptions(query: Query, kind: 'CreateOptions' | 'UpdateOptions' | 'PatchOptions', apply = false): void {
  const errors: FieldError[] = [];
  dryRun(errors, query['dryRun'] === undefined ? [] : [query['dryRun']]);
  const manager = query['fieldManager'] ?? '';
  if (apply && manager === '') errors.push(required('fieldManager', 'is required for apply patch'));
  if (Buffer.byteLength(manager) > maxManager) errors.push(tooLong('fieldManager', maxManager));
  errors.push(...unprintable(manager));
  if (kind === 'PatchOptions' && !apply && query['force'] !== undefined)
    errors.push(fieldForbidden('force', 'may not be specified for non-apply patch'));
  const validation = query['fieldValidation'] ?? '';
  if (!['', 'Ignore', 'Warn', 'Strict'].includes(validation))
    errors.push(notSupported('fieldValidation', validation, ['', 'Ignore', 'Strict', 'Warn']));
  if (errors.length > 0) throw invalidStatus({ group: 'meta.k8s.io', kind, name: '' }, errors);
}

function unprintable(manager: string): FieldError[] {
  const errors: FieldError[] = [];
  let at = 0;
  for (const char of manager) {
    if (!isPrintable(char)) {
      const code = `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
      errors.push(invalid('fieldManager', manager, `invalid character ${code} (at position ${at})`));
    }
    at += Buffer.byteLength(char);
  }
  return errors;
}

/** What Go calls printable: letters, marks, numbers, punctuation, symbols and the plain space. */
export const isPrintable = (char: string): boolean => char === ' ' || /^[\p{L}\p{M}\p{N}\p{P}\p{S}]$/u.test(char);

/** Whether an applied configuration takes fields from their managers. Anything but a no is a yes, as in Kubernetes. */
export function forces({ force }: Query): boolean {
  return force !== undefined && force !== '0' && force.toLowerCase() !== 'false';
}

/** The options of a write as admission plugins see them. */
export function writeOptions(query: Query, kind: string): Readonly<Record<string, unknown>> {
  const { dryRun, fieldManager, fieldValidation, force } = query;
  return {
    kind,
    apiVersion: 'meta.k8s.io/v1',
    ...(dryRun !== undefined && dryRun !== '' && { dryRun: [dryRun] }),
    ...(fieldManager !== undefined && { fieldManager }),
    ...(fieldValidation !== undefined && { fieldValidation }),
    ...(kind === 'PatchOptions' && force !== undefined && { force: forces(query) }),
  };
}

/** `metav1.DeleteOptions`, checked. */
export interface DeleteOptions {
  readonly gracePeriodSeconds: number | undefined;
  readonly propagationPolicy: 'Orphan' | 'Background' | 'Foreground' | undefined;
  readonly orphanDependents: boolean | undefined;
  readonly preconditions: { readonly uid?: string | undefined; readonly resourceVersion?: string | undefined };
  readonly dryRun: boolean;
}

const policies = ['Orphan', 'Background', 'Foreground'] as const;

/** From the body, or from the query when there is none: where both say something, the query counts for nothing. @throws StatusError BadRequest, Invalid */
export function deleteOptions({ body, query }: ApiRequest): DeleteOptions {
  return parseDeleteOptions(body === undefined ? fromQuery(query) : body);
}

export function parseDeleteOptions(given: unknown, query: Query = {}): DeleteOptions {
  const gvk = { group: '', version: 'v1', kind: 'DeleteOptions' };
  if (!isObject(given)) throw badRequest('the object provided is unrecognized (must be of type DeleteOptions)');
  if (given['kind'] !== undefined && given['kind'] !== '' && given['kind'] !== 'DeleteOptions')
    throw badRequest(
      `${typeof given['kind'] === 'string' ? given['kind'] : JSON.stringify(given['kind'])} cannot be handled as a DeleteOptions`,
    );
  const body = conformed(given, { gvk, schema: schemaOf(gvk) }) as {
    readonly gracePeriodSeconds?: number;
    readonly propagationPolicy?: string;
    readonly orphanDependents?: boolean;
    readonly dryRun?: readonly string[];
    readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  };
  const { gracePeriodSeconds, orphanDependents, preconditions = {} } = body;
  const dry = body.dryRun ?? (query['dryRun'] === undefined || query['dryRun'] === '' ? [] : [query['dryRun']]);
  const errors: FieldError[] = [];
  const policy = policies.find((name) => name === body.propagationPolicy);
  if (body.propagationPolicy !== undefined && body.propagationPolicy !== '' && policy === undefined)
    errors.push(notListed('propagationPolicy', body.propagationPolicy, ['Foreground', 'Background', 'Orphan', 'nil']));
  if (policy !== undefined && orphanDependents !== undefined)
    errors.push(invalid('propagationPolicy', policy, 'orphanDependents and deletionPropagation cannot be both set'));
  dryRun(errors, dry);
  if (errors.length > 0) throw invalidStatus({ group: 'meta.k8s.io', kind: 'DeleteOptions', name: '' }, errors);
  return {
    // a negative grace counts as one second, upstream has it so
    gracePeriodSeconds: gracePeriodSeconds !== undefined && gracePeriodSeconds < 0 ? 1 : gracePeriodSeconds,
    orphanDependents,
    propagationPolicy: policy,
    dryRun: dry.length > 0,
    preconditions: { uid: preconditions.uid, resourceVersion: preconditions.resourceVersion },
  };
}

function fromQuery(query: Query): Readonly<Record<string, unknown>> {
  const { gracePeriodSeconds, propagationPolicy, orphanDependents, dryRun } = query;
  const seconds = gracePeriodSeconds === undefined || gracePeriodSeconds === '' ? undefined : Number(gracePeriodSeconds);
  if (seconds !== undefined && !Number.isSafeInteger(seconds))
    throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(gracePeriodSeconds)}: invalid syntax`);
  return {
    ...(seconds !== undefined && { gracePeriodSeconds: seconds }),
    ...(propagationPolicy !== undefined && { propagationPolicy }),
    ...(orphanDependents !== undefined && { orphanDependents: orphanDependents !== 'false' && orphanDependents !== '0' }),
    ...(dryRun !== undefined && dryRun !== '' && { dryRun: [dryRun] }),
  };
}

function dryRun(errors: FieldError[], values: readonly string[]): void {
  if (values.some((value) => value !== '' && value !== 'All')) errors.push(notSupported('dryRun', values, ['All']));
}
