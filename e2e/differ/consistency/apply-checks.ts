import { isFields, valueAt, type Fields } from '../request.ts';
import { faultsIn, withUnknown } from './faulty-fields.ts';
import type { Exchange, Probe } from './probe.ts';

const dryRun = 'dryRun=All&force=true&fieldManager=differ';

/** Returns an apply configuration as JSON with an annotation that is set twice, on the second line. */
function duplicateConfiguration(configuration: Fields): string {
  const text = JSON.stringify({ ...configuration, metadata: { annotations: { a: 'last' }, ...(configuration['metadata'] as Fields) } });
  return text.replace('"a":"last"', '"a":"first",\n"a":"last"');
}

/**
 * Server-side apply with its options: a manager is required; duplicate fields are an error with Strict, warnings with Warn and nothing with Ignore;
 * undeclared fields are an error at every level; a field of another manager is a conflict, also in a dry run, unless `force` is set.
 */
export async function applyOptionsAgree(probe: Probe): Promise<void> {
  const { object, path } = probe.fresh();
  const configuration = (labels: Fields): Fields => ({
    apiVersion: object['apiVersion'],
    kind: object['kind'],
    metadata: { name: object.metadata['name'], labels },
  });
  const apply = (query: string, body: unknown): Promise<Exchange> => probe.patch(`${path}?${query}`, 'apply', body);
  const created = await apply('fieldManager=one', { ...object, metadata: { ...object.metadata, labels: { a: 'one' } } });
  if (!probe.expectStatus('create', created, 201) || !isFields(created.body)) return;
  probe.expectStatus('without a manager', await apply('', configuration({ a: 'two' })), 422);
  const two = configuration({ a: 'two' });
  const conflict = await apply('fieldManager=two&dryRun=All', two);
  // without managed fields nothing conflicts
  const isManaged = valueAt(created.body, 'metadata.managedFields') !== undefined;
  probe.expectStatus('conflict', conflict, isManaged ? 409 : 200);
  if (isManaged)
    probe.expectEqual('field of the conflict', conflict.request, ['.metadata.labels.a', valueAt(conflict.body, 'details.causes.0.field')]);
  const forced = await apply('fieldManager=two&dryRun=All&force=true', two);
  if (probe.expectStatus('force', forced, 200))
    probe.expectEqual('forced label', forced.request, ['two', valueAt(forced.body, 'metadata.labels.a')]);
  await duplicatesAgree(probe, (query, faulty) => apply(`${dryRun}${query}`, faulty ? duplicateConfiguration(two) : withUnknown(two)));
}

async function duplicatesAgree(probe: Probe, apply: (query: string, isDuplicate: boolean) => Promise<Exchange>): Promise<void> {
  const strict = await apply('&fieldValidation=Strict', true);
  const warn = await apply('&fieldValidation=Warn', true);
  const ignore = await apply('&fieldValidation=Ignore', true);
  probe.expectStatus('duplicate field: Strict', strict, 400);
  probe.expectEqual('duplicate field: warning', warn.request, [['line 2: key "a" already set in map'], faultsIn(warn)]);
  probe.expectEqual('duplicate field: object', warn.request, [ignore.body, warn.body]);
  probe.expectEqual('duplicate field: warnings with Ignore', ignore.request, [[], faultsIn(ignore)]);
  const unknown = await apply('&fieldValidation=Ignore', false);
  // a schema that preserves unknown fields declares all
  probe.expectStatus('undeclared field', unknown, 500, ...(probe.kind.isCustom ? [200] : []));
}
