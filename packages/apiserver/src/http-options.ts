import { invalid, invalidStatus, fieldForbidden, notSupported, required, tooLong, type FieldError } from '@oarlock/api/field-error';
import { schemaOf } from '@oarlock/api/schema';
import { badRequest } from '@oarlock/api/status';
import type { PatchType } from '@oarlock/spi/client';
import type { ApiVerb } from '@oarlock/spi/loopback';
import { isTrue, type Query } from './http-path.ts';

const optionKinds: Partial<Record<ApiVerb, string>> = {
  create: 'CreateOptions', update: 'UpdateOptions', patch: 'PatchOptions', delete: 'DeleteOptions', deletecollection: 'DeleteOptions',
};
const maxManagerLength = 128;

/**
 * Checks the parameters that every write takes, as Kubernetes' validation of CreateOptions and its like does.
 * @throws StatusError `Invalid`
 */
export function checkWriteOptions(verb: ApiVerb, query: Query, patchType: PatchType | undefined): void {
  const kind = optionKinds[verb];
  if (kind === undefined) return;
  const { dryRun, fieldManager, fieldValidation, force } = query.first;
  if (dryRun === undefined && fieldManager === undefined && fieldValidation === undefined && force === undefined && patchType !== 'apply') return;
  const errors: FieldError[] = [];
  if (verb === 'patch') {
    if (patchType === 'apply') {
      if (fieldManager === undefined || fieldManager === '') errors.push(required('fieldManager', 'is required for apply patch'));
    } else if (force !== undefined) errors.push(fieldForbidden('force', 'may not be specified for non-apply patch'));
  }
  const wrong = query.all('dryRun').filter((value) => value !== 'All' && value !== '');
  if (wrong.length > 0) errors.push(notSupported('dryRun', query.all('dryRun'), ['All']));
  if (!kind.startsWith('Delete')) {
    errors.push(...managerErrors(fieldManager));
    if (fieldValidation !== undefined && !['', 'Ignore', 'Warn', 'Strict'].includes(fieldValidation)) {
      errors.push(notSupported('fieldValidation', fieldValidation, ['', 'Ignore', 'Strict', 'Warn']));
    }
  }
  if (errors.length > 0) throw invalidStatus({ group: 'meta.k8s.io', kind, name: '' }, errors);
}

function* managerErrors(manager: string | undefined): Generator<FieldError> {
  if (manager === undefined) return;
  if (Buffer.byteLength(manager) > maxManagerLength) yield tooLong('fieldManager', maxManagerLength);
  if (/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}]/u.test(manager)) yield invalid('fieldManager', manager, 'should only contain printable characters');
}

/**
 * Options such as PodExecOptions out of a query, typed by their schema. Unknown parameters are ignored.
 * @throws StatusError `BadRequest` for a number that is none
 */
export function optionsOf(kind: string, query: Query, more: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> {
  const options: Record<string, unknown> = { kind, apiVersion: 'v1', ...more };
  for (const [name, schema] of schemaOf({ group: '', version: 'v1', kind })?.properties ?? []) {
    const value = query.first[name];
    if (value === undefined || name === 'kind' || name === 'apiVersion') continue;
    if (schema.type === 'array') options[name] = schema.items?.type === 'integer' ? query.all(name).map((item) => integer(name, item)) : [...query.all(name)];
    else if (schema.type === 'boolean') options[name] = isTrue(value);
    else if (schema.type === 'integer') options[name] = integer(name, value);
    else if (schema.type === 'string') options[name] = value;
  }
  return options;
}

function integer(name: string, value: string): number {
  if (!/^[+-]?\d{1,15}$/.test(value)) throw badRequest(`${name}: strconv.ParseInt: parsing ${JSON.stringify(value)}: invalid syntax`);
  return Number(value);
}
