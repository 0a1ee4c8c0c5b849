import { schemaOf } from '@oarlock/api/schema/schema';
import { badRequest } from '@oarlock/api/status';
import { isTrue, type Query } from '../path.ts';

/**
 * Converts the parameters of a query to an options object such as PodExecOptions, with the types of its schema. Unknown parameters are ignored.
 * @throws StatusError `BadRequest` if a numeric parameter is not a number
 */
export function queryOptions(kind: string, query: Query, more: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> {
  const options: Record<string, unknown> = { kind, apiVersion: 'v1', ...more };
  for (const [name, schema] of schemaOf({ group: '', version: 'v1', kind })?.properties ?? []) {
    const value = query.first[name];
    if (value === undefined || name === 'kind' || name === 'apiVersion') continue;
    if (schema.type === 'array')
      options[name] = schema.items?.type === 'integer' ? query.all(name).map((item) => integer(name, item)) : [...query.all(name)];
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
