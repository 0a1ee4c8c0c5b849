import { isFields, valueAt, type Fields } from '../request.ts';
import type { Exchange, PatchName, Probe } from './probe.ts';

const labeled = (object: Fields & { readonly metadata: Fields }, labels: Fields): Fields => ({
  ...object,
  metadata: { ...object.metadata, labels },
});
const versionOf = ({ body }: Exchange): unknown => valueAt(body, 'metadata.resourceVersion');
const asManager = 'fieldManager=differ';

/** A dry run answers what the real run answers. */
export async function dryRunEqualsRealRun(probe: Probe): Promise<void> {
  const { object, path } = probe.fresh();
  const ignored = { metadata: ['resourceVersion'] };
  const dry = await probe.create(object, `?${asManager}&dryRun=All`);
  const real = await probe.create(object, `?${asManager}`);
  if (!probe.expectStatus('create', real, 201)) return;
  probe.expectSame('create', dry, real, ignored);
  const changed = labeled(object, { a: 'put' });
  const requests: readonly (readonly [string, (query: string) => Promise<Exchange>])[] = [
    ['update', (query) => probe.send({ method: 'PUT', path: `${path}?${asManager}${query}`, body: changed })],
    ...bodies(probe).map(
      ([type, body]) =>
        [
          `${type} patch`,
          (query: string) => probe.patch(`${path}?${asManager}${query}&force=${type === 'apply' ? 'true' : ''}`, type, body),
        ] as const,
    ),
    ['delete', (query) => probe.send({ method: 'DELETE', path: `${path}?gracePeriodSeconds=0${query}` })],
  ];
  for (const [what, send] of requests) {
    const before = await probe.get(path);
    const dryRun = await send('&dryRun=All');
    probe.expectSame(`${what}: a dry run stores nothing`, before, await probe.get(path));
    probe.expectSame(what, dryRun, await send(''), ignored);
  }
}

function bodies({ kind }: Probe): readonly (readonly [PatchName, unknown])[] {
  const { apiVersion } = kind;
  const metadata = (type: string): Fields => ({ labels: { a: type }, annotations: { a: type } });
  const all: readonly (readonly [PatchName, unknown])[] = [
    ['json', [{ op: 'add', path: '/metadata/labels', value: { a: 'json' } }]],
    ['merge', { metadata: metadata('merge') }],
    ['strategic', { metadata: metadata('strategic') }],
    ['apply', { apiVersion, kind: kind.kind.kind, metadata: metadata('apply') }],
  ];
  return all.filter(([type]) => type !== 'strategic' || !kind.isCustom);
}

/** Server-side apply of an object that does not exist stores what a create stores, and a second apply changes nothing. */
export async function applyEqualsCreate(probe: Probe): Promise<void> {
  const [posted, applied] = [probe.fresh(), probe.fresh()];
  const created = await probe.create(posted.object, `?${asManager}`);
  const first = await probe.patch(`${applied.path}?${asManager}`, 'apply', applied.object);
  if (!probe.expectStatus('create', created, 201) || !probe.expectStatus('apply', first, 201)) return;
  probe.expectSame('apply', created, first, { metadata: ['managedFields'] });
  // without fields the manager owns nothing, and the next apply is its first again
  if (valueAt(first.body, 'metadata.managedFields') === undefined) return;
  const second = await probe.patch(`${applied.path}?${asManager}`, 'apply', applied.object);
  probe.expectStatus('second apply', second, 200);
  probe.expectEqual('second apply', second.request, [first.body, second.body]);
  probe.expectEqual('resource version after the second apply', second.request, [`is ${versionOf(first)}`, `is ${versionOf(second)}`]);
}

/** Requests that change nothing leave the resource version as it is. */
export async function noChangeKeepsVersion(probe: Probe): Promise<void> {
  const { object, path } = probe.fresh();
  const created = await probe.create(object, `?${asManager}`);
  if (!probe.expectStatus('create', created, 201)) return;
  const before = await probe.get(path);
  const requests: readonly (readonly [string, () => Promise<Exchange>])[] = [
    ['update', () => probe.send({ method: 'PUT', path: `${path}?${asManager}`, body: before.body })],
    [
      'update without a resource version',
      () => probe.send({ method: 'PUT', path: `${path}?${asManager}`, body: withoutVersion(before.body) }),
    ],
    ['merge patch', () => probe.patch(`${path}?${asManager}`, 'merge', {})],
    ['json patch', () => probe.patch(`${path}?${asManager}`, 'json', [])],
    ...(probe.kind.isCustom ? [] : [['strategic patch', () => probe.patch(`${path}?${asManager}`, 'strategic', {})] as const]),
  ];
  for (const [what, send] of requests) {
    const after = await send();
    // kinds without unconditional updates
    if (String(valueAt(after.body, 'message')).includes('metadata.resourceVersion: Invalid value: 0: must be specified for an update'))
      continue;
    if (!probe.expectStatus(what, after, 200)) continue;
    probe.expectEqual(what, after.request, [before.body, after.body]);
    probe.expectEqual(`resource version after: ${what}`, after.request, [`is ${versionOf(before)}`, `is ${versionOf(after)}`]);
  }
}

function withoutVersion(body: unknown): unknown {
  if (!isFields(body) || !isFields(body['metadata'])) return body;
  const { resourceVersion: _, ...metadata } = body['metadata'];
  return { ...body, metadata };
}

/** All patch types and an update store the same object if they make the same change. */
export async function patchTypesAgree(probe: Probe): Promise<void> {
  const labels = { a: 'b' };
  const changes: readonly (readonly [PatchName | 'update', (object: Fields & { readonly metadata: Fields }) => unknown])[] = [
    ['update', (created) => labeled(created, { ...(created.metadata['labels'] as Fields), ...labels })],
    ['json', (created) => [{ op: 'add', path: '/metadata/labels', value: { ...(created.metadata['labels'] as Fields), ...labels } }]],
    ['merge', () => ({ metadata: { labels } })],
    ...(probe.kind.isCustom ? [] : [['strategic', () => ({ metadata: { labels } })] as const]),
    ['apply', (created) => ({ apiVersion: created['apiVersion'], kind: created['kind'], metadata: { labels } })],
  ];
  let first: Exchange | undefined;
  for (const [type, body] of changes) {
    const { object, path } = probe.fresh();
    const created = await probe.create(object);
    if (!probe.expectStatus('create', created, 201)) return;
    const change = body(created.body as Fields & { readonly metadata: Fields });
    const changed =
      type === 'update'
        ? await probe.send({ method: 'PUT', path, body: change })
        : await probe.patch(type === 'apply' ? `${path}?${asManager}` : path, type, change);
    first ??= changed;
    probe.expectSame(type, first, changed, { metadata: ['managedFields'] });
  }
}

/** Creating again what a create returned stores the same object: defaults do not change each other. */
export async function defaultsAreStable(probe: Probe): Promise<void> {
  const [once, again] = [probe.fresh(), probe.fresh()];
  const created = await probe.create(once.object, `?${asManager}`);
  if (!probe.expectStatus('create', created, 201) || !isFields(created.body)) return;
  const { status: _, ...fields } = withoutAllocated(created.body);
  const copy = { ...fields, metadata: again.object.metadata, ...uniqueFields(again.object, fields) };
  probe.expectSame('defaulted object', created, await probe.create(copy, `?${asManager}`), { metadata: ['managedFields'] });
}

/** Fields that repeat the name of the object. */
const uniqueFields = (object: Fields, fields: Fields): Fields =>
  ['APIService', 'CustomResourceDefinition'].includes(String(object['kind']))
    ? { spec: { ...(fields['spec'] as Fields), group: valueAt(object, 'spec.group') } }
    : {};

/** Fields that the server sets to values of one object only, by kind. */
const allocatedFields: Readonly<Record<string, readonly string[]>> = {
  Service: ['spec.clusterIP', 'spec.clusterIPs'],
  Job: ['spec.selector', 'spec.template.metadata'],
};

function withoutAllocated(object: Fields): Fields {
  return (allocatedFields[String(object['kind'])] ?? []).reduce((rest, path) => withoutField(rest, path.split('.')), object);
}

function withoutField(object: Fields, [key = '', ...rest]: readonly string[]): Fields {
  const { [key]: value, ...others } = object;
  return rest.length === 0 || !isFields(value) ? others : { ...others, [key]: withoutField(value, rest) };
}
