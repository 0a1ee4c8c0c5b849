import { expect } from 'vitest';
import { strategicPatch, type Thing, type Wire } from './cluster.ts';

/** A condition that a test sets. */
export const ready = {
  type: 'StatusUpdate',
  status: 'True',
  reason: 'E2E',
  message: 'Set by a test',
  lastTransitionTime: '2026-01-01T00:00:00Z',
};

/** The inputs of an "API operations" behavior. `NS` in paths is replaced by the namespace. */
export interface Row {
  readonly collection: string;
  readonly kind: string;
  readonly body: object;
  /** A merge patch whose effect must be visible; by default a label. */
  readonly change?: object;
  /** Written to the status subresource by a patch and by an update. */
  readonly status?: Readonly<Record<string, unknown>>;
  /** Lists of the status that controllers also write: they must contain the test's entries. */
  readonly merges?: readonly string[];
  readonly subresources?: readonly string[];
}
interface Discovered {
  readonly resources: readonly { readonly name: string; readonly kind: string; readonly verbs: readonly string[] }[];
}

const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];

/** Tests discovery, create, get, list, watch, patch, update, status, delete and deletecollection; a watch must send each change. */
export async function operations(wire: Wire, namespace: string, row: Row): Promise<void> {
  const { kind, body, change } = row;
  const collection = row.collection.replace('NS', namespace);
  const [group, version, resource] = parts(row.collection);
  await discovered(wire, group, version, resource, row);

  const suffix = `${resource.slice(0, 20)}-${group.length}`;
  const labels = { 'special-label': suffix };
  const selected = `${collection}?labelSelector=special-label%3D${suffix}`;
  const own = JSON.parse(JSON.stringify(body).replaceAll('"NS"', JSON.stringify(namespace))) as object;
  const object = (name: string) => ({
    apiVersion: group === '' ? version : `${group}/${version}`,
    kind,
    metadata: { name, labels },
    ...own,
  });
  const watch = await wire.watch(selected);

  const names = ['a', 'b', 'c'].map((letter) => `${suffix}-${letter}`);
  const [first = ''] = names;
  for (const name of names) {
    const created = await wire.create(collection, object(name));
    expect(created).toMatchObject({ kind, metadata: { name, labels } });
    expect(created.metadata?.uid).toBeTruthy();
    expect((await watch.type('ADDED')).object.metadata?.name).toBe(name);
  }
  const path = `${collection}/${first}`;
  expect((await wire.get(path)).metadata?.uid).toBeTruthy();
  expect((await wire.list(selected)).items.map(({ metadata }) => metadata?.name)).toEqual(names);
  // the same list over all namespaces
  if (row.collection.includes('/namespaces/'))
    expect((await wire.list(selected.replace(`/namespaces/${namespace}`, ''))).items).toHaveLength(names.length);
  const dry = await wire.create(`${collection}?dryRun=All`, object(`${suffix}-dry`));
  expect(dry.metadata?.name).toBe(`${suffix}-dry`);

  const patched = await wire.patch(path, { metadata: { annotations: { patched: 'true' } }, ...change });
  expect(patched).toMatchObject({ metadata: { annotations: { patched: 'true' } }, ...change });
  await watch.next(({ type, object: seen }) => type === 'MODIFIED' && seen.metadata?.annotations?.['patched'] === 'true');
  await wire.patch(path, { metadata: { annotations: { strategic: 'true' } } }, strategicPatch);

  const updated = await retried(wire, path, '', (current) => ({
    ...current,
    metadata: { ...current.metadata, annotations: { ...current.metadata?.annotations, updated: 'true' } },
  }));
  expect(updated).toMatchObject({ metadata: { annotations: { patched: 'true', updated: 'true' } }, ...change });
  await watch.next(({ type, object: seen }) => type === 'MODIFIED' && seen.metadata?.annotations?.['updated'] === 'true');
  const stale = await wire.rejectionOf(wire.update(path, { ...object(first), metadata: { ...updated.metadata, resourceVersion: '1' } }));
  expect(stale.status).toMatchObject({ reason: 'Conflict', code: 409 });

  const applied = await wire.apply(`${collection}/${suffix}-applied`, object(`${suffix}-applied`), 'fieldManager=e2e');
  expect(applied.metadata?.managedFields?.[0]).toMatchObject({ manager: 'e2e', operation: 'Apply' });

  if (row.status !== undefined) await statuses(wire, path, row);

  await wire.remove(path);
  await watch.next(({ type, object: seen }) => type === 'DELETED' && seen.metadata?.name === first);
  expect((await wire.rejectionOf(wire.get(path))).code).toBe(404);
  await wire.remove(selected);
  // a controller removes the finalizers of some kinds
  for (let left = 3; left > 0; left--) await watch.type('DELETED');
  expect((await wire.list(selected)).items).toEqual([]);
  watch.close();
}

async function statuses(wire: Wire, path: string, { status, merges = [] }: Row): Promise<void> {
  const wanted = Object.fromEntries(
    Object.entries(status ?? {}).map(([name, value]) => [name, merges.includes(name) ? expect.arrayContaining(value as unknown[]) : value]),
  ) as object;
  expect(await wire.get(`${path}/status`)).toMatchObject({ metadata: { name: path.slice(path.lastIndexOf('/') + 1) } });
  const patch = { metadata: { annotations: { patchedstatus: 'true' } }, status };
  const patched = await wire.patch(`${path}/status`, patch);
  expect(patched).toMatchObject({ status: wanted });
  const updated = await retried(wire, path, '/status', (current) => ({ ...current, status }));
  expect(updated).toMatchObject({ status: wanted });
  // a write of the object itself does not change the status
  const kept = await wire.patch(path, { status: null });
  expect(kept).toMatchObject({ status: wanted });
}

async function retried(wire: Wire, path: string, subresource: string, change: (object: Thing) => object): Promise<Thing> {
  for (;;) {
    const answer = await wire.call('PUT', `${path}${subresource}`, { body: change(await wire.get(path)) });
    // a controller wrote first
    if (answer.code === 409) continue;
    expect(answer.code, answer.bytes.toString()).toBe(200);
    return JSON.parse(answer.bytes.toString()) as Thing;
  }
}

function parts(collection: string): readonly [group: string, version: string, resource: string] {
  const segments = collection.split('/');
  const resource = segments.at(-1) ?? '';
  return segments[1] === 'api' ? ['', segments[2] ?? '', resource] : [segments[2] ?? '', segments[3] ?? '', resource];
}

async function discovered(wire: Wire, group: string, version: string, resource: string, row: Row): Promise<void> {
  if (group !== '') {
    interface Group {
      readonly name: string;
      readonly versions: readonly { readonly version: string }[];
    }
    const { groups } = await wire.get<{ readonly groups: readonly Group[] }>('/apis');
    for (const found of [groups.find(({ name }) => name === group), await wire.get<Group>(`/apis/${group}`)])
      expect(found?.versions.map((each) => each.version)).toContain(version);
  }
  const { resources } = await wire.get<Discovered>(group === '' ? `/api/${version}` : `/apis/${group}/${version}`);
  const found = resources.find(({ name }) => name === resource);
  expect(found).toMatchObject({ kind: row.kind });
  expect(found?.verbs.toSorted()).toEqual(verbs);
  for (const name of [...(row.status === undefined ? [] : ['status']), ...(row.subresources ?? [])])
    expect(resources.map((each) => each.name)).toContain(`${resource}/${name}`);
}
