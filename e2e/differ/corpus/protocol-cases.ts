import type { ApiRequest, RequestCase } from '../request.ts';
import { listPath, type CorpusKind } from './kinds.ts';

const maps = '/api/v1/namespaces/%{namespace}/configmaps';
const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: '%{run}-media' }, data: { a: 'b' } };

const accepts = [
  '*/*',
  'application/*',
  'application/json',
  'application/yaml',
  'application/vnd.kubernetes.protobuf',
  'application/cbor',
  'text/plain',
  'text/html, application/json;q=0.5',
  'application/yaml;q=0.1, application/json;q=0.9',
  'application/json;as=Table;v=v1;g=meta.k8s.io',
  'application/json;as=Table;v=v1beta1;g=meta.k8s.io',
  'application/json;as=Table;v=v2;g=meta.k8s.io',
  'application/json;as=Bogus;v=v1;g=meta.k8s.io',
  'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io',
  'application/json;stream=watch',
];
const contentTypes: readonly (readonly [string, string | object])[] = [
  ['application/json', map],
  ['application/json; charset=utf-8', map],
  ['application/yaml', 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "%{run}-media"}\ndata: {a: b}\n'],
  ['application/yaml', 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "%{run}-media"}\ndata: {a: b, a: c}\n'],
  ['application/vnd.kubernetes.protobuf', 'k8s'],
  ['application/cbor', 'x'],
  ['text/plain', 'x'],
  ['application/json', '{'],
  ['application/json', ''],
  ['application/json', '[]'],
  ['application/json', 'null'],
  ['application/json', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%{run}-media"},"data":{"a":"b","a":"c"}}'],
  ['application/json', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%{run}-media"},"data":{"a":5}}'],
  ['application/json', '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%{run}-media"}} {}'],
];
const targets: readonly ApiRequest[] = [
  { method: 'GET', path: '/absent' },
  { method: 'GET', path: '/api/v2' },
  { method: 'GET', path: '/apis/differ.example.com' },
  { method: 'GET', path: '/apis/apps/v2/deployments' },
  { method: 'GET', path: '/api/v1/differs' },
  { method: 'GET', path: '/api/v1/namespaces/%{run}-absent/pods/a' },
  { method: 'GET', path: '/api/v1/namespaces/%{namespace}/pods/a/absent' },
  { method: 'GET', path: '/api/v1/namespaces/%{namespace}/nodes' },
  { method: 'POST', path: '/api/v1/namespaces/%{run}-absent/configmaps', body: map },
  { method: 'POST', path: `${maps}/a`, body: map },
  { method: 'PUT', path: maps, body: map },
  { method: 'PATCH', path: maps, headers: { 'content-type': 'application/merge-patch+json' }, body: {} },
  { method: 'OPTIONS', path: maps },
  { method: 'HEAD', path: maps },
  { method: 'GET', path: `${maps}?differUnknown=1` },
  { method: 'GET', path: `${maps}/Not_A%20Name` },
  { method: 'POST', path: `${maps}?dryRun=Some`, body: map },
  { method: 'POST', path: `${maps}?dryRun=All&dryRun=All`, body: map },
  { method: 'POST', path: `${maps}?dryRun=All&pretty=true`, body: map },
  { method: 'POST', path: `${maps}?dryRun=All&fieldManager=a%00b`, body: map },
  { method: 'POST', path: '/api/v1/namespaces/%{namespace}/pods/absent/binding', body: { target: { name: 'n' } } },
  { method: 'POST', path: '/api/v1/namespaces/%{namespace}/pods/absent/eviction', body: {} },
  { method: 'GET', path: '/apis/apps/v1/namespaces/%{namespace}/deployments/absent/scale' },
  {
    method: 'GET',
    path: '/api/v1/watch/namespaces/%{namespace}/configmaps?timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name%3Dabsent',
  },
];

/** Requests that test the protocol and not a kind: media types, malformed bodies, unknown paths and methods. */
export function protocolCases(): readonly RequestCase[] {
  return [
    ...accepts.map((accept) =>
      one(`accept/${accept}`, { method: 'GET', path: `${maps}?labelSelector=differ%3Dnone`, headers: { accept } }),
    ),
    ...contentTypes.map(([type, body], at) =>
      one(`content-type/${at}/${type}`, {
        method: 'POST',
        path: `${maps}?dryRun=All&fieldValidation=Warn`,
        headers: { 'content-type': type },
        body,
      }),
    ),
    ...targets.map((request, at) => one(`target/${at}/${request.method} ${request.path.replaceAll(/%\{(\w+)\}/g, '$1')}`, request)),
  ];
}

/** Lists without an item: the columns of the kind's Table, its list kind, and its discovery document. */
export function printingCases(kind: CorpusKind): readonly RequestCase[] {
  const path = `${listPath(kind)}?labelSelector=differ%3Dnone`;
  const { group, version } = kind.kind;
  return [
    one(`columns/${kind.id}`, { method: 'GET', path, headers: { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' } }),
    one(`empty-list/${kind.id}`, { method: 'GET', path }),
    one(`discovery/${kind.id}`, { method: 'GET', path: group === '' ? `/api/${version}` : `/apis/${group}/${version}` }),
  ];
}

const one = (id: string, request: ApiRequest): RequestCase => ({ id, steps: [request] });
