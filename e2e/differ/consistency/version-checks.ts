import type { CorpusKind } from '../corpus/kinds.ts';
import { isFields, valueAt, type Fields } from '../request.ts';
import type { Probe } from './probe.ts';

const isSameResource = (a: CorpusKind, b: CorpusKind): boolean =>
  a !== b && a.kind.resource === b.kind.resource && (a.kind.group === b.kind.group || a.kind.resource === 'events');

/** Returns a check of the versions of a kind among the served ones. */
export const versionsAgree =
  (served: readonly CorpusKind[]) =>
  async (probe: Probe): Promise<void> => {
    // events of the core group lack fields that events.k8s.io requires
    if (probe.kind.id === 'events') return;
    for (const other of served.filter((each) => isSameResource(probe.kind, each))) await versionAgrees(probe, other);
  };

/**
 * An object is the same one in both versions: reading it in the other version and writing it back changes nothing, and creating it from
 * the other version's form stores the same fields.
 */
async function versionAgrees(probe: Probe, other: CorpusKind): Promise<void> {
  const [object, copy] = [probe.fresh(), probe.fresh(other)];
  const created = await probe.create(object.object);
  if (!probe.expectStatus('create', created, 201)) return;
  const otherPath = `${probe.listOf(other)}/${object.name}`;
  const [own, converted] = [await probe.get(object.path), await probe.get(otherPath)];
  const label = `in ${other.apiVersion}`;
  if (!probe.expectStatus(label, converted, 200) || !isFields(converted.body)) return;
  probe.expectEqual(`type ${label}`, converted.request, [other.apiVersion, converted.body['apiVersion']]);
  probe.expectEqual(`metadata ${label}`, converted.request, [valueAt(own.body, 'metadata'), valueAt(converted.body, 'metadata')]);
  const replacement = await probe.send({ method: 'PUT', path: otherPath, body: converted.body });
  if (!probe.expectStatus(`update ${label}`, replacement, 200)) return;
  probe.expectEqual(`object after an update ${label}`, replacement.request, [own.body, (await probe.get(object.path)).body]);
  const { status: _, ...fields } = converted.body;
  const posted = await probe.create({ ...fields, metadata: copy.object.metadata }, '', other);
  if (!probe.expectStatus(`create ${label}`, posted, 201)) return;
  const back = await probe.get(`${probe.list}/${copy.name}`);
  probe.expectEqual(`create ${label}`, back.request, [unmanaged(own.body), unmanaged(back.body)]);
}

/** Returns the object without the managers of its fields, which name the version of their request. */
function unmanaged(body: unknown): unknown {
  if (!isFields(body) || !isFields(body['metadata'])) return body;
  const { managedFields: _, ...metadata }: Fields = body['metadata'];
  return { ...body, metadata };
}
