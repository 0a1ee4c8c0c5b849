import { inspect } from 'node:util';
import { configMaps, secrets } from '@oarlock/api/resources';
import type { KubeObject } from '@oarlock/api/object';
import type { Logger } from '@oarlock/primitives/logger';
import { deny, type AdmissionPlugin } from '@oarlock/spi/admission';
import type { AuditEvent, AuditSink } from '@oarlock/spi/audit';
import type { Authenticator } from '@oarlock/spi/authn';
import type { StorageDriver } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { trace, type Span, type Tracer } from '@opentelemetry/api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Auditor } from '../../src/audit/auditor.ts';
import type { Pipeline } from '../../src/pipeline/pipeline.ts';
import { admin, TestClock, TestServer } from '../support/pipeline-fixture.ts';
import { certificateRequestPem } from '@oarlock/testing/sample-certificates';
import { byCertificate, startServer, type TestServer as HttpTestServer } from '../support/start-server.ts';

/** Valid as a label value, as a data key and as base64. */
const marker = 'PlantedMarker7d1fxyz';
const decodedMarker = Buffer.from(marker, 'base64').toString('latin1');
const encodedMarker = Buffer.from(marker).toString('base64').replace(/=+$/, '').slice(0, -1);

/** The marker comes first, so that its own encoding is part of the text. */
const certificateRequest = Buffer.from(`${marker}\n${certificateRequestPem}`).toString('base64');

/** Everything that the process writes: log records, spans, audit events and metrics. */
class ProcessOutput {
  readonly records: string[] = [];
  readonly log: Logger = {
    debug: (...record) => this.add('log', record),
    info: (...record) => this.add('log', record),
    warn: (...record) => this.add('log', record),
    error: (...record) => this.add('log', record),
    child: () => this.log,
  };
  readonly tracer = {
    startSpan: (name: string, options: unknown) => {
      this.add('span', [name, options]);
      return this.#span;
    },
    startActiveSpan: () => trace.getTracer('none'),
  } as unknown as Tracer;
  readonly audit: AuditSink = { record: (event: AuditEvent) => this.add('audit', event) };
  readonly #span = {
    spanContext: () => ({ traceId: '1'.repeat(32), spanId: '1'.repeat(16), traceFlags: 1 }),
    isRecording: () => true,
    end: () => undefined,
    addEvent: (...record: unknown[]) => this.#spanRecord(record),
    recordException: (...record: unknown[]) => this.#spanRecord(record),
    setAttribute: (...record: unknown[]) => this.#spanRecord(record),
    setAttributes: (...record: unknown[]) => this.#spanRecord(record),
    setStatus: (...record: unknown[]) => this.#spanRecord(record),
    updateName: (...record: unknown[]) => this.#spanRecord(record),
  } as unknown as Span;

  #spanRecord(record: unknown): Span {
    this.add('span', record);
    return this.#span;
  }

  add(source: string, record: unknown): void {
    // with messages, stacks and causes of errors
    this.records.push(`${source} ${inspect(record, { depth: 20, maxStringLength: null, maxArrayLength: null, breakLength: Infinity })}`);
  }

  /** Returns the records that contain the marker in any form. */
  leaks(): readonly string[] {
    const forms = [marker, encodedMarker, decodedMarker].map((form) => form.toLowerCase());
    return this.records.filter((record) => forms.some((form) => record.toLowerCase().includes(form)));
  }
}

interface ConfidentialKind {
  readonly path: string;
  readonly name: string | undefined;
  readonly object: KubeObject;
}

const metadata = (name: string | undefined): NonNullable<KubeObject['metadata']> => ({
  ...(name !== undefined && { name }),
  labels: { label: marker, [marker]: 'x' },
  annotations: { annotation: marker, [marker]: marker },
  finalizers: [`example.com/${marker}`],
  ownerReferences: [{ apiVersion: 'v1', kind: marker, name: marker, uid: marker }],
});

const kinds: Readonly<Record<string, ConfidentialKind>> = {
  Secret: {
    path: '/api/v1/namespaces/default/secrets',
    name: 's',
    object: {
      kind: 'Secret',
      apiVersion: 'v1',
      metadata: metadata('s'),
      ...{ type: marker, data: { password: marker, [marker]: marker }, stringData: { text: marker } },
    },
  },
  'ConfigMap of kube-system': {
    path: '/api/v1/namespaces/kube-system/configmaps',
    name: 'c',
    object: {
      kind: 'ConfigMap',
      apiVersion: 'v1',
      metadata: metadata('c'),
      ...{ data: { key: marker, [marker]: marker }, binaryData: { bytes: marker } },
    },
  },
  CertificateSigningRequest: {
    path: '/apis/certificates.k8s.io/v1/certificatesigningrequests',
    name: 'r',
    object: {
      kind: 'CertificateSigningRequest',
      apiVersion: 'certificates.k8s.io/v1',
      metadata: metadata('r'),
      ...{ spec: { request: certificateRequest, signerName: 'example.com/signer', usages: ['digital signature'] } },
    },
  },
  TokenReview: {
    path: '/apis/authentication.k8s.io/v1/tokenreviews',
    name: undefined,
    object: {
      kind: 'TokenReview',
      apiVersion: 'authentication.k8s.io/v1',
      metadata: metadata(undefined),
      ...{ spec: { token: marker, audiences: [marker] } },
    },
  },
  TokenRequest: {
    path: '/api/v1/namespaces/default/serviceaccounts/default/token',
    name: undefined,
    object: {
      kind: 'TokenRequest',
      apiVersion: 'authentication.k8s.io/v1',
      metadata: metadata(undefined),
      ...{
        spec: {
          audiences: [marker],
          expirationSeconds: 600,
          boundObjectRef: { kind: marker, apiVersion: marker, name: marker, uid: marker },
        },
      },
    },
  },
};

const mediaTypes = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
} as const;

interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
}

/** Returns requests of all verbs that carry the marker, most of them invalid in another way each. */
function requestsOf({ path, name, object }: ConfidentialKind): readonly Request[] {
  const json = JSON.stringify(object);
  const post = (body: unknown, query = '', contentType = 'application/json'): Request => ({
    method: 'POST',
    path: `${path}${query}`,
    body,
    contentType,
  });
  const creates = [
    post(object),
    post(object),
    post(object, '?dryRun=All'),
    post({ ...object, [marker]: marker }, '?fieldValidation=Strict'),
    post({ ...object, metadata: { ...object.metadata, [marker]: marker } }, '?fieldValidation=Warn'),
    post(`${json.slice(0, -1)},"metadata":{"name":"${marker}","name":"${marker}"}}`, '?fieldValidation=Strict'),
    post({ ...object, kind: marker }),
    post({ ...object, apiVersion: marker }),
    post({ ...object, metadata: marker }),
    post({ ...object, metadata: { ...object.metadata, labels: { label: `${marker}!` } } }),
    post({ ...object, metadata: { ...object.metadata, resourceVersion: marker } }),
    post({ ...object, metadata: { ...object.metadata, creationTimestamp: marker } }),
    post({ ...object, data: [marker], spec: [marker], stringData: marker }),
    post({ ...object, data: { key: { nested: marker } }, spec: { token: { nested: marker }, request: [marker] } }),
    post({ ...object, data: { [`${marker}!`]: `${marker}!` }, spec: { request: `${marker}!`, audiences: marker } }),
    post(json.slice(0, -20)),
    post(`${marker}: [${marker}`, '', 'application/yaml'),
    post(`a: ${marker}\n b: ${marker}`, '', 'application/yaml'),
    post(Buffer.concat([Buffer.from('k8s\0'), Buffer.from(json)]), '', 'application/vnd.kubernetes.protobuf'),
  ];
  if (name === undefined) return creates;
  const one = `${path}/${name}`;
  const patch = (type: keyof typeof mediaTypes, body: unknown, query = ''): Request => ({
    method: 'PATCH',
    path: `${one}${query}`,
    body,
    contentType: mediaTypes[type],
  });
  const update = (body: unknown): Request => ({ method: 'PUT', path: one, body, contentType: 'application/json' });
  const { kind, apiVersion } = object;
  const stored = { ...object, metadata: { ...object.metadata, ownerReferences: [] } };
  return [
    post(stored),
    ...creates,
    update(stored),
    update({ ...stored, metadata: { ...stored.metadata, resourceVersion: '999999' } }),
    update({ ...stored, metadata: { ...stored.metadata, uid: marker } }),
    update({ ...stored, metadata: { ...stored.metadata, name: marker } }),
    update({ ...stored, type: `${marker}x`, immutable: true }),
    update({ ...stored, data: 7, spec: 7 }),
    patch('merge', { data: { other: `${marker}!` } }),
    patch('merge', { data: 7, spec: marker }),
    patch('merge', marker),
    patch('merge', `{"data": "${marker}`),
    patch('merge', { metadata: { resourceVersion: marker } }),
    patch('strategic', { type: `x${marker}`, spec: { signerName: marker } }),
    patch('strategic', { data: [marker], spec: [marker] }),
    patch('strategic', { metadata: { finalizers: { [marker]: marker } } }),
    patch('strategic', { $patch: marker, data: { $patch: marker } }),
    patch('json', [{ op: 'test', path: '/metadata/labels/label', value: `x${marker}` }]),
    patch('json', [{ op: 'replace', path: `/data/${marker}/${marker}`, value: marker }]),
    patch('json', [{ op: marker, path: marker }]),
    patch('json', { [marker]: marker }),
    patch(
      'apply',
      { kind, apiVersion, metadata: { name }, data: { [marker]: 'other' }, spec: { request: 'other' } },
      '?fieldManager=other',
    ),
    patch('apply', { kind, apiVersion, metadata: { name }, [marker]: marker }, '?fieldManager=other&force=true'),
    patch('apply', `kind: ${marker}\n data: ${marker}`, '?fieldManager=other'),
    { method: 'GET', path: one },
    { method: 'GET', path },
    { method: 'GET', path: `${path}?limit=1` },
    { method: 'DELETE', path: one, body: { preconditions: { uid: marker } }, contentType: 'application/json' },
    { method: 'DELETE', path: one, body: { kind: marker, [marker]: marker }, contentType: 'application/json' },
    { method: 'DELETE', path: one, body: `{"propagationPolicy": "${marker}`, contentType: 'application/json' },
    { method: 'DELETE', path: one, body: { propagationPolicy: marker }, contentType: 'application/json' },
    { method: 'DELETE', path: one },
    { method: 'DELETE', path },
  ];
}

let core: TestServer;
let server: HttpTestServer<Pipeline>;
let output: ProcessOutput;

interface Setting {
  readonly admission?: readonly AdmissionPlugin[];
  readonly storage?: StorageDriver;
  readonly authn?: readonly Authenticator[];
}

async function start({ admission = [], storage, authn = [] }: Setting = {}): Promise<void> {
  output = new ProcessOutput();
  const { log, tracer, audit } = output;
  const clock = new TestClock();
  const names = { admission: admission.map((_, at) => `admission-test-${at}`), authz: ['authz-test'] };
  core = await TestServer.start({ clock, log, tracer, admission, authn, names, ...(storage && { storage }) });
  server = await startServer({ audit: [audit], log, authn: [byCertificate] }, core.pipeline);
  await core
    .create('serviceaccounts', { kind: 'ServiceAccount', apiVersion: 'v1', metadata: { name: 'default' } })
    .catch((error: unknown) => expect(error).toBeDefined());
}
beforeEach(() => start());
afterEach(async () => {
  await server.stop();
  await core.stop();
});

/** Sends requests over HTTP, and returns the status codes. */
async function send(requests: readonly Request[]): Promise<readonly number[]> {
  const codes: number[] = [];
  for (const { method, path, body, contentType } of requests) {
    const text = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const headers = contentType === undefined ? {} : { 'content-type': contentType };
    const { code } = await server.http2(method, path, { headers, ...(text !== undefined && { body: text }) });
    codes.push(code);
  }
  output.add('metrics', await server.registry.metrics());
  return codes;
}

describe.each(Object.entries(kinds))('requests for a %s', (_, kind) => {
  it('leave nothing of the object in logs, spans, audit events of level Metadata and metrics', async () => {
    const codes = await send(requestsOf(kind));
    expect(output.records.some((record) => record.startsWith('audit'))).toBe(true);
    expect(output.records.some((record) => record.startsWith('span'))).toBe(true);
    // both paths were taken
    expect(codes.some((code) => code < 300)).toBe(true);
    expect(codes.filter((code) => code >= 400).length).toBeGreaterThan(5);
    expect(output.leaks()).toEqual([]);
  });

  it.each<[string, AdmissionPlugin]>([
    ['denies with the object', { matches: [], validate: ({ object, old }) => deny(JSON.stringify([object, old])) }],
    [
      'throws an error with the object',
      {
        matches: [],
        mutate: ({ object, old }) => {
          throw new TypeError(`unexpected object ${JSON.stringify([object, old])}`);
        },
      },
    ],
    [
      'rejects asynchronously with the object',
      { matches: [], validate: ({ object }) => Promise.reject(new Error(`failed on ${JSON.stringify(object)}`)) },
    ],
    ['adds a field of its own', { matches: [], mutate: ({ object }) => ({ ...object, ...{ data: { [`own-${marker}`]: marker } } }) }],
  ])('leave nothing behind if an admission plugin %s', async (_title, plugin) => {
    await server.stop();
    await core.stop();
    await start({ admission: [{ ...plugin, matches: [{ resources: ['*', '*/*'], operations: ['CREATE', 'UPDATE', 'DELETE'] }] }] });
    await send(requestsOf(kind));
    expect(output.leaks()).toEqual([]);
  });

  it('leave nothing behind if storage fails with the value', async () => {
    await server.stop();
    await core.stop();
    const inner = new MemoryStorage();
    const failing: StorageDriver = {
      traits: inner.traits,
      get: (...args) => inner.get(...args),
      range: (...args) => inner.range(...args),
      commit(writes) {
        const values = writes.map(({ value }) => Buffer.from(value ?? []).toString());
        return Promise.reject(new Error(`cannot write ${values.join()}`, { cause: new Error(values.join()) }));
      },
      watch: (...args) => inner.watch(...args),
      requestProgress: () => inner.requestProgress(),
      compact: (revision) => inner.compact(revision),
    };
    await start({ storage: failing });
    await send(requestsOf(kind));
    expect(output.leaks()).toEqual([]);
  });
});

describe.each([
  ['Secret', secrets, 'default'],
  ['ConfigMap of kube-system', configMaps, 'kube-system'],
] as const)('in-process requests for a %s', (title, resource, namespace) => {
  it('leave nothing of the object behind', async () => {
    const { object, name = '' } = kinds[title] as ConfidentialKind;
    const pipeline = new Auditor([output.audit], { clock: core.clock, log: output.log }).auditPipeline(core.pipeline);
    const request = { resource, namespace, subresource: '', identity: admin, query: {} };
    const outcomes = await Promise.allSettled([
      ...[object, { ...object, data: { [`${marker}!`]: marker } }, { ...object, data: [marker] }].map((body) =>
        pipeline.handle({ ...request, verb: 'create', name: '', body }),
      ),
      ...[{ data: 7 }, { data: { [`${marker}!`]: marker } }].map((body) =>
        pipeline.handle({ ...request, verb: 'patch', patchType: 'merge', name, body }),
      ),
    ]);
    expect(outcomes.filter(({ status }) => status === 'rejected').length).toBeGreaterThan(2);
    expect(output.leaks()).toEqual([]);
  });
});

describe('a TokenReview', () => {
  it('leaves nothing of the token behind if an authenticator throws an error with it', async () => {
    await server.stop();
    await core.stop();
    const authn: Authenticator = {
      authenticate: ({ bearerToken }) => {
        throw new Error(`cannot parse ${bearerToken}`);
      },
    };
    await start({ authn: [authn] });
    await send(requestsOf(kinds['TokenReview'] as ConfidentialKind));
    expect(output.leaks()).toEqual([]);
  });
});

describe('a value in storage that cannot be decoded', () => {
  it('is logged without its content', async () => {
    await server.stop();
    await core.stop();
    const storage = new MemoryStorage();
    await storage.commit([{ key: '/registry/secrets/default/s', value: Buffer.from(`{"data": "${marker}`) }], []);
    await start({ storage });
    expect(output.records.some((record) => record.includes('could not be decoded'))).toBe(true);
    expect(output.leaks()).toEqual([]);
  });
});

describe.each(['Secret', 'ConfigMap of kube-system', 'CertificateSigningRequest'])('responses to invalid patches of a %s', (title) => {
  it('do not quote the stored object', async () => {
    const { path, name, object } = kinds[title] as ConfidentialKind;
    const stored = { ...object, metadata: { ...object.metadata, ownerReferences: [] } };
    expect((await server.http2('POST', path, { headers: { 'content-type': 'application/json' }, body: JSON.stringify(stored) })).code).toBe(
      201,
    );
    const patches: readonly (readonly [keyof typeof mediaTypes, unknown])[] = [
      ['merge', { data: 7, spec: 7 }],
      ['merge', { data: { key: [] }, spec: { usages: 'none' } }],
      ['merge', { metadata: 7 }],
      ['merge', { metadata: { labels: { label: '!' } } }],
      ['merge', { metadata: { creationTimestamp: 'none' } }],
      ['strategic', { data: [], spec: [] }],
      ['strategic', { metadata: { finalizers: {} } }],
      ['json', [{ op: 'test', path: '/metadata/labels/label', value: 'other' }]],
      ['json', [{ op: 'replace', path: '/metadata/absent/label', value: 'other' }]],
      [
        'json',
        [
          { op: 'add', path: '/data', value: 7 },
          { op: 'add', path: '/spec', value: 7 },
        ],
      ],
      ['apply', { kind: object.kind, apiVersion: object.apiVersion, metadata: { name }, data: 7, spec: 7 }],
    ];
    for (const [type, body] of patches) {
      const response = await server.http2('PATCH', `${path}/${name}?fieldManager=test`, {
        headers: { 'content-type': mediaTypes[type] },
        body: JSON.stringify(body),
      });
      expect(response.code).toBeGreaterThanOrEqual(400);
      for (const form of [marker, encodedMarker]) expect(response.text).not.toContain(form);
    }
  });
});
