import type { ApiRequest, Fields, RequestCase } from '../request.ts';
import { listPath, objectOf, type CorpusKind } from './kinds.ts';

/** Kinds on which no controller of a cluster acts: what a write stored stays as it is. */
const withoutControllers: ReadonlySet<string> = new Set([
  'configmaps',
  'controllerrevisions.apps',
  'clusterroles.rbac.authorization.k8s.io',
  'clusterrolebindings.rbac.authorization.k8s.io',
  'csidrivers.storage.k8s.io',
  'csistoragecapacities.storage.k8s.io',
  'deviceclasses.resource.k8s.io',
  'events',
  'events.events.k8s.io',
  'ingressclasses.networking.k8s.io',
  'ingresses.networking.k8s.io',
  'leases.coordination.k8s.io',
  'limitranges',
  'networkpolicies.networking.k8s.io',
  'pods',
  'podtemplates',
  'priorityclasses.scheduling.k8s.io',
  'resourceclaimtemplates.resource.k8s.io',
  'rolebindings.rbac.authorization.k8s.io',
  'roles.rbac.authorization.k8s.io',
  'runtimeclasses.node.k8s.io',
  'secrets',
  'services',
  'storageclasses.storage.k8s.io',
  'volumeattributesclasses.storage.k8s.io',
]);

const types = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
};

/** Writes one object and reads, changes, patches, applies and deletes it with each option. The last step removes it. */
export function lifecycleCases(kind: CorpusKind): readonly RequestCase[] {
  if (!withoutControllers.has(kind.id)) return [];
  const id = kind.id.replaceAll('.', '-').slice(0, 30);
  return [
    lifecycle(kind, 'patch', `%{run}-p-${id}`, patchSteps),
    lifecycle(kind, 'update', `%{run}-u-${id}`, updateSteps),
    lifecycle(kind, 'apply', `%{run}-a-${id}`, applySteps),
    lifecycle(kind, 'list', `%{run}-l-${id}`, listSteps),
    lifecycle(kind, 'delete', `%{run}-d-${id}`, deleteSteps),
  ];
}

interface Stored {
  readonly kind: CorpusKind;
  readonly list: string;
  readonly one: string;
  readonly object: Fields & { readonly metadata: Fields };
}

function lifecycle(kind: CorpusKind, what: string, name: string, steps: (stored: Stored) => readonly ApiRequest[]): RequestCase {
  const base = objectOf(kind, name);
  const metadata: Fields = { ...base.metadata, labels: { differ: name } };
  const object = { ...base, metadata };
  const list = listPath(kind);
  const one = `${list}/${String(metadata['name'])}`;
  return {
    id: `${what}/${kind.id}`,
    steps: [
      { method: 'POST', path: `${list}?fieldManager=differ`, body: object },
      ...steps({ kind, list, one, object }),
      { method: 'DELETE', path: `${one}?gracePeriodSeconds=0` },
    ],
  };
}

const patch = (path: string, type: keyof typeof types, body: unknown): ApiRequest => ({
  method: 'PATCH',
  path,
  headers: { 'content-type': types[type] },
  body,
});

function patchSteps({ one, kind }: Stored): readonly ApiRequest[] {
  const annotation = { metadata: { annotations: { differ: 'a' } } };
  return [
    patch(`${one}?fieldManager=differ-json`, 'json', [{ op: 'add', path: '/metadata/annotations', value: { differ: 'json' } }]),
    patch(one, 'json', [{ op: 'test', path: '/metadata/annotations/differ', value: 'other' }]),
    patch(one, 'json', [{ op: 'remove', path: '/metadata/annotations/absent' }]),
    patch(one, 'json', [{ op: 'replace', path: '/metadata/name', value: 'other' }]),
    patch(one, 'json', [{ op: 'frobnicate', path: '/metadata/labels' }]),
    patch(one, 'json', { metadata: {} }),
    patch(one, 'merge', annotation),
    patch(one, 'merge', { metadata: { annotations: null } }),
    patch(one, 'merge', {}),
    patch(one, 'merge', []),
    patch(one, 'strategic', annotation),
    patch(one, 'strategic', { metadata: { annotations: { $patch: 'replace', only: 'this' } } }),
    patch(one, 'strategic', { metadata: { finalizers: ['example.com/differ'], '$setElementOrder/finalizers': ['example.com/other'] } }),
    patch(one, 'strategic', { metadata: { labels: 5 } }),
    patch(`${one}?dryRun=All`, 'merge', annotation),
    patch(`${one}?fieldValidation=Strict`, 'merge', { differUnknown: 1 }),
    patch(`${one}?fieldValidation=Warn`, 'merge', { differUnknown: 1 }),
    patch(`${one}?fieldValidation=Ignore`, 'merge', { differUnknown: 1 }),
    patch(`${one}?fieldValidation=Bogus`, 'merge', {}),
    patch(`${one}?force=true`, 'merge', {}),
    patch(one, 'merge', { metadata: { resourceVersion: '1' } }),
    patch(one, 'merge', { metadata: { uid: 'other' } }),
    { method: 'PATCH', path: one, headers: { 'content-type': 'application/json' }, body: {} },
    ...(kind.change === undefined ? [] : [patch(one, 'merge', kind.change)]),
    { method: 'GET', path: one },
  ];
}

function updateSteps({ one, object }: Stored): readonly ApiRequest[] {
  const changed = (metadata: Fields): Fields => ({ ...object, metadata: { ...object.metadata, ...metadata } });
  const put = (path: string, body: Fields): ApiRequest => ({ method: 'PUT', path, body });
  return [
    put(`${one}?fieldManager=differ-update`, changed({ annotations: { differ: 'b' }, resourceVersion: '%{0.metadata.resourceVersion}' })),
    put(one, changed({ annotations: { differ: 'c' }, resourceVersion: '%{0.metadata.resourceVersion}' })),
    put(one, changed({ uid: '00000000-0000-4000-8000-000000000000' })),
    put(one, changed({ name: 'differ-other' })),
    put(one, changed({ namespace: 'differ-other' })),
    put(one, changed({ resourceVersion: 'x' })),
    put(`${one}?dryRun=All`, changed({ annotations: { differ: 'd' } })),
    put(`${one}?dryRun=None`, changed({})),
    put(`${one}?fieldManager=${'m'.repeat(129)}`, changed({})),
    put(`${one}-absent`, changed({})),
    put(one, { ...object, kind: 'Differ' }),
    { method: 'GET', path: one },
  ];
}

function applySteps({ one, object }: Stored): readonly ApiRequest[] {
  const config = (fields: Fields): Fields => ({
    apiVersion: object['apiVersion'],
    kind: object['kind'],
    metadata: { name: object.metadata['name'], ...fields },
  });
  return [
    patch(one, 'apply', config({ labels: { a: 'b' } })),
    patch(`${one}?fieldManager=one`, 'apply', config({ labels: { a: 'b' } })),
    patch(`${one}?fieldManager=one`, 'apply', config({ labels: { a: 'b' } })),
    patch(`${one}?fieldManager=two`, 'apply', config({ labels: { a: 'c' } })),
    patch(`${one}?fieldManager=two&dryRun=All&force=true`, 'apply', config({ labels: { a: 'c' } })),
    patch(`${one}?fieldManager=two&force=true`, 'apply', config({ labels: { a: 'c' } })),
    patch(`${one}?fieldManager=one`, 'apply', config({})),
    patch(`${one}?fieldManager=two`, 'apply', config({ managedFields: [{ manager: 'x' }] })),
    patch(`${one}?fieldManager=two`, 'apply', { ...config({}), kind: 'Differ' }),
    patch(`${one}?fieldManager=two&fieldValidation=Strict`, 'apply', { ...config({}), differUnknown: 1 }),
    patch(`${one}?fieldManager=two`, 'apply', '{'),
    { method: 'GET', path: one },
  ];
}

function listSteps({ list, one, object }: Stored): readonly ApiRequest[] {
  const selector = `labelSelector=differ%3D${String((object.metadata['labels'] as Fields)['differ'])}`;
  const get = (path: string, accept?: string): ApiRequest => ({
    method: 'GET',
    path,
    ...(accept !== undefined && { headers: { accept } }),
  });
  const table = 'application/json;as=Table;v=v1;g=meta.k8s.io';
  return [
    get(`${list}?${selector}`),
    get(`${list}?${selector}`, table),
    get(`${list}?${selector}&includeObject=Object`, table),
    get(`${list}?${selector}`, 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io'),
    get(one, table),
    get(one, 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io'),
    get(`${one}?pretty=true`),
    get(one, 'application/yaml'),
    get(`${list}?${selector}&limit=1`),
    get(`${list}?${selector}&resourceVersion=0&resourceVersionMatch=NotOlderThan`),
    get(`${list}?${selector}&resourceVersion=0&resourceVersionMatch=Exact`),
    get(`${list}?${selector}&resourceVersionMatch=Exact`),
    get(`${list}?${selector}&resourceVersion=x`),
    get(`${list}?${selector}&continue=x`),
    get(`${list}?${selector}&limit=-1`),
    get(`${list}?${selector}&timeoutSeconds=x`),
    get(`${list}?fieldSelector=metadata.name%3D${String(object.metadata['name'])}`),
    get(`${list}?fieldSelector=spec.differ%3Da`),
    get(`${list}?fieldSelector=%3D%3D`),
    get(`${list}?labelSelector=%21%21`),
    get(`${list}?${selector}&watch=1&timeoutSeconds=1&resourceVersion=0`),
    get(`${list}?${selector}&watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true`),
    get(`${list}?watch=1&sendInitialEvents=true`),
    get(`${one}-absent`),
    { method: 'DELETE', path: `${list}?${selector}&dryRun=All` },
  ];
}

function deleteSteps({ one, list }: Stored): readonly ApiRequest[] {
  const remove = (query: string, body?: Fields): ApiRequest => ({
    method: 'DELETE',
    path: `${one}${query}`,
    ...(body !== undefined && { body: { kind: 'DeleteOptions', apiVersion: 'v1', ...body } }),
  });
  return [
    remove('?dryRun=All'),
    remove('', { preconditions: { uid: '00000000-0000-4000-8000-000000000000' } }),
    remove('', { preconditions: { resourceVersion: '1' } }),
    remove('?propagationPolicy=Bogus'),
    remove('?gracePeriodSeconds=x'),
    remove('?gracePeriodSeconds=-5&dryRun=All'),
    remove('?orphanDependents=true&propagationPolicy=Orphan'),
    remove('', { dryRun: ['Some'] }),
    remove('?propagationPolicy=Orphan&dryRun=All'),
    remove('?propagationPolicy=Foreground&dryRun=All'),
    remove('-absent'),
    { method: 'DELETE', path: `${list}?labelSelector=%21%21` },
    { method: 'GET', path: one },
  ];
}
