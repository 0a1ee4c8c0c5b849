import {
  fieldForbidden,
  invalid,
  notSupportedInOrder,
  notSupported,
  required,
  tooLong,
  type FieldError,
} from '@oarlock/api/field/field-error';
import { invalidStatus } from '@oarlock/api/field/invalid-status';
import { isObject } from '@oarlock/api/json/json';
import { schemaOf } from '@oarlock/api/schema/schema';
import { badRequest } from '@oarlock/api/status';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { conformToSchema } from './body.ts';

type Query = ApiRequest['query'];

/** The maximum length of the name of a field manager in bytes. */
export const maxFieldManagerBytes = 128;

/** Validates the query options that every write has, such as dryRun and fieldManager. @throws StatusError Invalid if an option is invalid */
export function checkWriteOptions(query: Query, kind: 'CreateOptions' | 'UpdateOptions' | 'PatchOptions', apply = false): void {
  const errors: FieldError[] = [];
  dryRunErrors(errors, query['dryRun'] === undefined ? [] : [query['dryRun']]);
  const manager = query['fieldManager'] ?? '';
  if (apply && manager === '') errors.push(required('fieldManager', 'is required for apply patch'));
  if (Buffer.byteLength(manager) > maxFieldManagerBytes) errors.push(tooLong('fieldManager', maxFieldManagerBytes));
  errors.push(...unprintableErrors(manager));
  if (kind === 'PatchOptions' && !apply && query['force'] !== undefined)
    errors.push(fieldForbidden('force', 'may not be specified for non-apply patch'));
  const validation = query['fieldValidation'] ?? '';
  if (!['', 'Ignore', 'Warn', 'Strict'].includes(validation))
    errors.push(notSupported('fieldValidation', validation, ['', 'Ignore', 'Strict', 'Warn']));
  if (errors.length > 0) throw invalidStatus({ group: 'meta.k8s.io', kind, name: '' }, errors);
}

function unprintableErrors(manager: string): FieldError[] {
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

/** Returns true for characters that Go's unicode.IsPrint accepts: letters, marks, numbers, punctuation, symbols and the ASCII space. */
export const isPrintable = (char: string): boolean => char === ' ' || /^[\p{L}\p{M}\p{N}\p{P}\p{S}]$/u.test(char);

/** Returns true if an apply request takes fields over from other managers. As upstream, every value of `force` except 0 and false counts as true. */
export function isForced({ force }: Query): boolean {
  return force !== undefined && force !== '0' && force.toLowerCase() !== 'false';
}

/** Returns the options of a write in the form that admission plugins receive. */
export function writeOptions(query: Query, kind: string): Readonly<Record<string, unknown>> {
  const { dryRun, fieldManager, fieldValidation, force } = query;
  return {
    kind,
    apiVersion: 'meta.k8s.io/v1',
    ...(dryRun !== undefined && dryRun !== '' && { dryRun: [dryRun] }),
    ...(fieldManager !== undefined && { fieldManager }),
    ...(fieldValidation !== undefined && { fieldValidation }),
    ...(kind === 'PatchOptions' && force !== undefined && { force: isForced(query) }),
  };
}

/** The validated `metav1.DeleteOptions`. */
export interface DeleteOptions {
  readonly gracePeriodSeconds: number | undefined;
  readonly propagationPolicy: 'Orphan' | 'Background' | 'Foreground' | undefined;
  readonly orphanDependents: boolean | undefined;
  readonly preconditions: { readonly uid?: string | undefined; readonly resourceVersion?: string | undefined };
  readonly dryRun: boolean;
  /** True to delete an object that cannot be read from storage: ignoreStoreReadErrorWithClusterBreakingPotential. */
  readonly ignoreStoreReadError: boolean;
}

const propagationPolicies = ['Orphan', 'Background', 'Foreground'] as const;

/**
 * Returns the options in the body, or in the query if there is no body.
 * @throws StatusError BadRequest if the options are malformed; Invalid if a value is invalid
 */
export function deleteOptions({ body, query }: ApiRequest): DeleteOptions {
  return parseDeleteOptions(body === undefined ? deleteOptionsFromQuery(query) : body);
}

export function parseDeleteOptions(options: unknown, query: Query = {}): DeleteOptions {
  const gvk = { group: '', version: 'v1', kind: 'DeleteOptions' };
  if (!isObject(options)) throw badRequest('the object provided is unrecognized (must be of type DeleteOptions)');
  if (options['kind'] !== undefined && options['kind'] !== '' && options['kind'] !== 'DeleteOptions')
    throw badRequest(
      `${typeof options['kind'] === 'string' ? options['kind'] : JSON.stringify(options['kind'])} cannot be handled as a DeleteOptions`,
    );
  const body = conformToSchema(options, { gvk, schema: schemaOf(gvk) }) as {
    readonly gracePeriodSeconds?: number;
    readonly propagationPolicy?: string;
    readonly orphanDependents?: boolean;
    readonly dryRun?: readonly string[];
    readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
    readonly ignoreStoreReadErrorWithClusterBreakingPotential?: boolean;
  };
  const { gracePeriodSeconds, orphanDependents, preconditions = {} } = body;
  const dry = body.dryRun ?? (query['dryRun'] === undefined || query['dryRun'] === '' ? [] : [query['dryRun']]);
  const errors: FieldError[] = [];
  const policy = propagationPolicies.find((name) => name === body.propagationPolicy);
  if (body.propagationPolicy !== undefined && body.propagationPolicy !== '' && policy === undefined)
    errors.push(notSupportedInOrder('propagationPolicy', body.propagationPolicy, ['Foreground', 'Background', 'Orphan', 'nil']));
  if (policy !== undefined && orphanDependents !== undefined)
    errors.push(invalid('propagationPolicy', policy, 'orphanDependents and deletionPropagation cannot be both set'));
  dryRunErrors(errors, dry);
  const ignoreStoreReadError = body.ignoreStoreReadErrorWithClusterBreakingPotential === true;
  if (ignoreStoreReadError) unsafeDeletionErrors(errors, { ...body, ...(dry.length > 0 && { dryRun: dry }) });
  if (errors.length > 0) throw invalidStatus({ group: 'meta.k8s.io', kind: 'DeleteOptions', name: '' }, errors);
  return {
    // upstream treats a negative grace period as one second
    gracePeriodSeconds: gracePeriodSeconds !== undefined && gracePeriodSeconds < 0 ? 1 : gracePeriodSeconds,
    orphanDependents,
    propagationPolicy: policy,
    dryRun: dry.length > 0,
    preconditions: { uid: preconditions.uid, resourceVersion: preconditions.resourceVersion },
    ignoreStoreReadError,
  };
}

/** Adds an error for each option that the deletion of an unreadable object would ignore. */
function unsafeDeletionErrors(errors: FieldError[], options: Readonly<Record<string, unknown>>): void {
  for (const name of ['dryRun', 'propagationPolicy', 'orphanDependents', 'gracePeriodSeconds', 'preconditions'])
    if (options[name] !== undefined)
      errors.push(invalid('ignoreStoreReadErrorWithClusterBreakingPotential', true, `cannot be set together with .${name}`));
}

function deleteOptionsFromQuery(query: Query): Readonly<Record<string, unknown>> {
  const {
    gracePeriodSeconds,
    propagationPolicy,
    orphanDependents,
    dryRun,
    ignoreStoreReadErrorWithClusterBreakingPotential: ignore,
  } = query;
  const seconds = gracePeriodSeconds === undefined || gracePeriodSeconds === '' ? undefined : Number(gracePeriodSeconds);
  if (seconds !== undefined && !Number.isSafeInteger(seconds))
    throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(gracePeriodSeconds)}: invalid syntax`);
  return {
    ...(seconds !== undefined && { gracePeriodSeconds: seconds }),
    ...(propagationPolicy !== undefined && { propagationPolicy }),
    ...(orphanDependents !== undefined && { orphanDependents: orphanDependents !== 'false' && orphanDependents !== '0' }),
    ...(dryRun !== undefined && dryRun !== '' && { dryRun: [dryRun] }),
    ...(ignore !== undefined && { ignoreStoreReadErrorWithClusterBreakingPotential: ignore !== 'false' && ignore !== '0' }),
  };
}

function dryRunErrors(errors: FieldError[], values: readonly string[]): void {
  if (values.some((value) => value !== '' && value !== 'All')) errors.push(notSupported('dryRun', values, ['All']));
}
