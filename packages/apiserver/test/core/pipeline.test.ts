import type { Attributes as SpanAttributes, Span, SpanContext, SpanOptions, Tracer } from '@opentelemetry/api';
import { trace } from '@opentelemetry/api';
import { afterEach, describe, expect, it } from 'vitest';
import type { KubeObject } from '@oarlock/api/object';
import { configMaps, pods } from '@oarlock/api/resources';
import { StatusError } from '@oarlock/api/status';
import { allow, deny, type AdmissionPlugin, type AdmissionRequest } from '@oarlock/spi/admission';
import { abstained, authenticated, rejected } from '@oarlock/spi/authn';
import type { Attributes, Authorizer } from '@oarlock/spi/authz';
import { StorageError } from '@oarlock/spi/storage';
import { MemoryStorage } from '@oarlock/storage-memory/memory-storage';
import { apiHandler } from '../../src/api-handler.ts';
import { admin, allowAll, configMap, pod, refusal, resourceNamed, TestServer, type ServerOptions } from './fixture.ts';

let server: TestServer;
const start = async (options: ServerOptions = {}) => { server = await TestServer.start(options); return server; };
afterEach(() => server.stop());

const plugin = (resources: readonly string[], operations: AdmissionPlugin['matches'][number]['operations'], rest: Omit<AdmissionPlugin, 'matches'>): AdmissionPlugin => ({ matches: [{ resources, operations }], ...rest });

describe('authorization', () => {
  it('refuses in upstream\'s words what nobody allows', async () => {
    await start({ authz: [{ authorize: () => ({ decision: 'no-opinion', because: 'no rule' }) }] });
    const status = async (call: Promise<unknown>) => (await refusal(call)).status;
    expect(await status(server.get('pods', 'a'))).toMatchObject({ code: 403, reason: 'Forbidden', message: 'pods "a" is forbidden: User "admin" cannot get resource "pods" in API group "" in the namespace "default": no rule', details: { name: 'a', kind: 'pods' } });
    expect(await status(server.list('deployments.apps'))).toMatchObject({ message: 'deployments.apps is forbidden: User "admin" cannot list resource "deployments" in API group "apps" at the cluster scope: no rule' });
    expect(await status(server.create('pods', {}, { subresource: 'binding', name: 'a' }))).toMatchObject({ message: 'pods "a" is forbidden: User "admin" cannot create resource "pods/binding" in API group "" in the namespace "default": no rule' });
    expect(await status(server.get('namespaces', 'team'))).toMatchObject({ message: expect.stringContaining('in the namespace "team"') as string });
  });

  it('asks until somebody decides, and asks no body before', async () => {
    const asked: string[] = [];
    const who = (name: string, decision: 'allow' | 'deny' | 'no-opinion', later = false): Authorizer => ({
      authorize: () => {
        asked.push(name);
        const answer = decision === 'no-opinion' ? { decision } as const : { decision, because: name };
        return later ? Promise.resolve(answer) : answer;
      },
    });
    await start({ authz: [who('a', 'no-opinion'), who('b', 'no-opinion', true), who('c', 'deny'), who('d', 'allow')] });
    const body = { get metadata(): never { throw new Error('the body was read'); } };
    expect((await refusal(server.create('configmaps', {}, { namespace: 'default', body }))).message).toMatch(/: c$/);
    expect(asked).toEqual(['a', 'b', 'c']);
  });

  it('wants the right to create from who opens a stream by GET', async () => {
    const verbs: string[] = [];
    await start({ authz: [{ authorize: ({ verb }: Attributes) => { verbs.push(verb); return verb === 'create' ? { decision: 'deny', because: 'no streams' } : { decision: 'allow', because: '' }; } }] });
    expect((await refusal(server.get('pods', 'a', { subresource: 'exec' }))).code).toBe(403);
    expect(verbs).toEqual(['get', 'create']);
  });
});

describe('admission', () => {
  it('changes in order, completes, validates, then asks for the last word', async () => {
    const seen: string[] = [];
    const label = (key: string): AdmissionPlugin => plugin(['pods'], ['CREATE'], {
      mutate(request) {
        seen.push(`mutate ${key}`);
        expect(Object.isFrozen(request.object)).toBe(true);
        return { ...request.object, metadata: { ...request.object?.metadata, labels: { ...request.object?.metadata?.labels, [key]: 'x' } } };
      },
      validate(request) { seen.push(`validate ${key} ${Object.keys(request.object?.metadata?.labels ?? {}).join('+')} ${request.object?.metadata?.uid === undefined ? 'early' : 'complete'}`); return allow; },
    });
    await start({ admission: [label('a'), label('b')] });
    expect((await server.create('pods', pod('p'))).metadata?.labels).toEqual({ a: 'x', b: 'x' });
    expect(seen).toEqual(['mutate a', 'mutate b', 'validate a a+b complete', 'validate b a+b complete']);
  });

  it('sets defaults again where a plugin added something', async () => {
    await start({ admission: [plugin(['pods'], ['CREATE'], { mutate: ({ object }) => ({ ...object, ...{ spec: { containers: [{ name: 'main', image: 'i' }, { name: 'added', image: 'j' }] } } }) })] });
    expect(await server.create('pods', pod('p'))).toMatchObject({ spec: { containers: [{}, { name: 'added', imagePullPolicy: 'Always', terminationMessagePath: '/dev/termination-log' }] } });
  });

  it('is asked for what it matches only', async () => {
    const seen: string[] = [];
    const watcher: AdmissionPlugin = {
      matches: [{ resources: ['pods/binding', 'deployments.apps'], operations: ['CREATE'] }, { resources: ['configmaps'], operations: ['*'] }],
      validate({ operation, resource, subresource, name, old }) { seen.push([operation, resource.resource, subresource, name, old === undefined ? 'new' : 'old'].join(' ')); return allow; },
    };
    await start({ admission: [watcher] });
    await server.create('pods', pod('p'));
    await server.create('pods', { kind: 'Binding', apiVersion: 'v1', metadata: { name: 'p' }, ...{ target: { name: 'n' } } }, { subresource: 'binding', name: 'p' });
    await server.create('configmaps', configMap('', {}, { generateName: 'g-' }));
    await server.create('configmaps', configMap('c'));
    await server.patch('configmaps', 'c', { data: { a: 'b' } });
    await server.remove('configmaps', 'c');
    expect(seen).toEqual(['CREATE pods binding p new', expect.stringMatching(/^CREATE configmaps {2}g-\w{5} new$/), 'CREATE configmaps  c new', 'UPDATE configmaps  c old', 'DELETE configmaps  c old']);
  });

  it('refuses in the reason it gives, and nothing is written', async () => {
    const refuseBy = (verdict: ReturnType<typeof deny>) => plugin(['*'], ['*'], { validate: () => verdict });
    const status = async (verdict: ReturnType<typeof deny>) => {
      await start({ admission: [refuseBy(verdict)] });
      const { status } = await refusal(server.create('configmaps', configMap('a')));
      expect((await server.list('configmaps')).names).toEqual([]);
      await server.stop();
      return status;
    };
    expect(await status(deny('not here'))).toMatchObject({ code: 403, reason: 'Forbidden', message: 'configmaps "a" is forbidden: not here', details: { name: 'a', kind: 'configmaps' } });
    expect(await status(deny('wrong', { reason: 'Invalid', field: 'data' }))).toMatchObject({ code: 422, message: 'ConfigMap "a" is invalid: data: wrong', details: { causes: [{ field: 'data', message: 'wrong' }] } });
    expect(await status(deny('slower', { reason: 'TooManyRequests' }))).toMatchObject({ code: 429 });
    expect(await status(deny('namespaces "x" not found', { reason: 'NotFound' }))).toMatchObject({ code: 404, message: 'namespaces "x" not found' });
    expect(await status(deny('no', { reason: 'BadRequest' }))).toMatchObject({ code: 400 });
    expect(await status(deny('no', { reason: 'Conflict' }))).toMatchObject({ code: 409 });
    await start();
  });

  it('can warn', async () => {
    await start({ admission: [plugin(['configmaps'], ['CREATE'], { mutate(request: AdmissionRequest) { request.warn('take care'); request.annotate('a', 'b'); return request.object as KubeObject; } })] });
    expect(await server.handle('create', 'configmaps', { namespace: 'default', body: configMap('a') })).toMatchObject({ warnings: ['take care'] });
  });

  it('decides on what is there now, not on what the cache still has', async () => {
    const denyFinished: AdmissionPlugin = plugin(['configmaps'], ['DELETE'], { validate: ({ old }) => ((old as { data?: { keep?: string } }).data?.keep === 'yes' ? deny('kept') : allow) });
    await start({ admission: [denyFinished] });
    await server.create('configmaps', configMap('a', { keep: 'yes' }));
    expect((await refusal(server.remove('configmaps', 'a'))).code).toBe(403);
    // written behind the server's back: its cache may not know yet
    await server.storage.commit([{ key: '/registry/configmaps/default/a', value: Buffer.from('{"metadata":{"name":"a","namespace":"default"}}') }], []);
    await server.remove('configmaps', 'a');
  });
});

describe('reviews', () => {
  const body = (kind: string, spec: object, group = 'authorization.k8s.io'): KubeObject => ({ kind, apiVersion: `${group}/v1`, ...{ spec } });
  const onlyPods: Authorizer = { authorize: (a) => (a.identity.name === 'bob' && a.kind === 'resource' && a.resource === 'pods' ? { decision: 'allow', because: 'bob likes pods' } : a.identity.name === 'bob' ? { decision: 'deny', because: 'bob does not' } : { decision: 'allow', because: 'x' }) };

  it('say what somebody may do', async () => {
    await start({ authz: [onlyPods] });
    const ask = (spec: object) => server.create('subjectaccessreviews.authorization.k8s.io', body('SubjectAccessReview', spec), { namespace: '' });
    expect(await ask({ user: 'bob', resourceAttributes: { verb: 'get', resource: 'pods', namespace: 'a' } })).toMatchObject({ status: { allowed: true, reason: 'bob likes pods' } });
    expect(await ask({ user: 'bob', nonResourceAttributes: { verb: 'get', path: '/metrics' } })).toMatchObject({ status: { allowed: false, denied: true, reason: 'bob does not' } });
    expect((await refusal(ask({ resourceAttributes: { verb: 'get' } }))).message).toContain('spec.user: Invalid value: "": at least one of user or group must be specified');
    expect((await refusal(ask({ user: 'bob' }))).message).toContain('exactly one of nonResourceAttributes or resourceAttributes must be specified');
    const local = server.create('localsubjectaccessreviews.authorization.k8s.io', body('LocalSubjectAccessReview', { user: 'bob', resourceAttributes: { namespace: 'other', verb: 'get', resource: 'pods' } }), { namespace: 'a' });
    expect((await refusal(local)).message).toContain('spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace');
  });

  it('say what I may do, and who I am', async () => {
    await start({ authz: [onlyPods, allowAll] });
    const mine = (resource: string) => server.create('selfsubjectaccessreviews.authorization.k8s.io', body('SelfSubjectAccessReview', { resourceAttributes: { verb: 'get', resource } }));
    expect(await mine('secrets')).toMatchObject({ status: { allowed: true } });
    expect(await server.create('selfsubjectreviews.authentication.k8s.io', { kind: 'SelfSubjectReview', apiVersion: 'authentication.k8s.io/v1' })).toMatchObject({ status: { userInfo: { username: 'admin', groups: admin.groups } } });
    expect(await server.create('selfsubjectrulesreviews.authorization.k8s.io', body('SelfSubjectRulesReview', { namespace: 'a' }))).toMatchObject({ status: { incomplete: true, resourceRules: [], nonResourceRules: [] } });
  });

  it('say whose a token is', async () => {
    await start({
      authn: [{ authenticate: ({ bearerToken }) => (bearerToken === 'good' ? authenticated({ name: 'bob', uid: '7', groups: ['g'] }) : bearerToken === 'bad' ? rejected('expired') : abstained) }, { authenticate: () => authenticated({ name: 'system:anonymous', groups: ['system:unauthenticated'] }) }],
    });
    const review = (spec: object) => server.create('tokenreviews.authentication.k8s.io', body('TokenReview', spec, 'authentication.k8s.io'));
    expect(await review({ token: 'good' })).toMatchObject({ status: { authenticated: true, user: { username: 'bob', uid: '7', groups: ['g'] } } });
    expect(await review({ token: 'good', audiences: ['https://kubernetes.default.svc.cluster.local', 'x'] })).toMatchObject({ status: { authenticated: true, audiences: ['https://kubernetes.default.svc.cluster.local'] } });
    expect((await review({ token: 'good', audiences: ['x'] }) as { status?: { authenticated?: boolean } }).status?.authenticated).toBeUndefined();
    expect(await review({ token: 'bad' })).toMatchObject({ status: { error: '[expired]' } });
    expect((await review({ token: 'unknown' }) as { status?: object }).status).toEqual({ user: {} });
    expect((await refusal(review({}))).message).toContain('spec.token: Required value');
  });
});

describe('traces', () => {
  interface Seen { readonly name: string; readonly parent: string | undefined; attributes: SpanAttributes; readonly context: SpanContext; status?: number; ended: boolean }
  function recorder(): { readonly tracer: Tracer; readonly spans: Seen[] } {
    const spans: Seen[] = [];
    const tracer = {
      startSpan(name: string, options: SpanOptions = {}, context) {
        const parent = context && trace.getSpanContext(context);
        const seen: Seen = {
          name, parent: spans.find((span) => span.context.spanId === parent?.spanId)?.name ?? parent?.spanId, attributes: { ...options.attributes }, ended: false,
          context: { traceId: parent?.traceId ?? '1'.repeat(32), spanId: (spans.length + 1).toString(16).padStart(16, '0'), traceFlags: 1 },
        };
        spans.push(seen);
        const span: Partial<Span> = {
          spanContext: () => seen.context, isRecording: () => true, end: () => { seen.ended = true; },
          setAttribute(key, value) { seen.attributes[key] = value; return span as Span; },
          setAttributes(more) { Object.assign(seen.attributes, more); return span as Span; },
          setStatus({ code }) { seen.status = code; return span as Span; },
        };
        return span as Span;
      },
    } as Tracer;
    return { tracer, spans };
  }

  it('show the way of a write, stage by stage', async () => {
    const { tracer, spans } = recorder();
    await start({
      tracer, names: { authz: ['authz-test'], admission: ['admission-label'] },
      admission: [plugin(['configmaps'], ['CREATE'], { mutate: ({ object }) => ({ ...object, ...{ data: { x: 'y' } } }), validate: () => allow })],
    });
    await server.create('configmaps', configMap('a'));
    expect(spans.map(({ name, parent }) => [name, parent])).toEqual([
      ['create configmaps', undefined], ['authorization', 'create configmaps'], ['admission admission-label', 'create configmaps'], ['validation', 'create configmaps'],
      ['admission admission-label', 'create configmaps'], ['storage write', 'create configmaps'],
    ]);
    expect(spans[0]?.attributes).toEqual({ 'oarlock.verb': 'create', 'oarlock.user': 'admin', 'oarlock.object': 'configmaps/default/a', 'oarlock.revision': 1, 'http.response.status_code': 201 });
    expect(spans[1]?.attributes).toEqual({ 'oarlock.decision': 'allow', 'oarlock.plugin': 'authz-test' });
    expect(spans[2]?.attributes).toEqual({ 'oarlock.phase': 'mutate', 'oarlock.changed': '["data.x"]' });
    expect(spans[5]?.attributes).toEqual({ 'oarlock.revision': 1 });
    expect(spans.every(({ ended }) => ended)).toBe(true);
  });

  it('record no reads but those of a trace from outside', async () => {
    const { tracer, spans } = recorder();
    await start({ tracer });
    await server.list('configmaps');
    expect(spans).toEqual([]);
    await server.list('configmaps', {}, { cause: { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1, isRemote: true } });
    expect(spans[0]).toMatchObject({ name: 'list configmaps', parent: 'b'.repeat(16), context: { traceId: 'a'.repeat(32) } });
  });

  it('hand the cause of a write on with its event', async () => {
    const { tracer, spans } = recorder();
    await start({ tracer });
    const watching = await server.watch('configmaps');
    await server.create('configmaps', configMap('a'));
    expect((await watching.next())?.cause).toEqual(spans[0]?.context);
    const late = await server.watch('configmaps');
    expect((await late.next())?.cause).toEqual(spans[0]?.context);
    await server.remove('configmaps', 'a');
    expect((await watching.next())?.cause).toEqual(spans.find(({ name }) => name === 'delete configmaps')?.context);
  });

  it('carry a cause on although nothing is recorded', async () => {
    await start();
    const cause = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 };
    const watching = await server.watch('configmaps');
    await server.create('configmaps', configMap('a'), { cause });
    expect((await watching.next())?.cause).toMatchObject(cause);
    await server.create('configmaps', configMap('b'));
    expect((await watching.next())?.cause).toBeUndefined();
  });

  it('mark what failed', async () => {
    const { tracer, spans } = recorder();
    await start({ tracer });
    await refusal(server.create('configmaps', configMap('B')));
    expect(spans[0]).toMatchObject({ status: 2, attributes: { 'http.response.status_code': 422 } });
  });
});

describe('faults', () => {
  const faulty = (fault: Error) => new Proxy(new MemoryStorage(), {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (name === 'commit') return () => Promise.reject(fault);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });

  it.each([
    [new StorageError('Unavailable', 'no quorum'), 504, 'Timeout'], [new StorageError('TooLarge', 'limit is 1 MiB'), 413, 'RequestEntityTooLarge'], [new Error('a bug'), 500, 'InternalError'],
  ] as const)('of storage become a Status: %s', async (fault, code, reason) => {
    await start({ storage: faulty(fault) });
    const error = await refusal(server.create('configmaps', configMap('a')));
    expect(error.status).toMatchObject({ code, reason });
    expect(error.message).toContain(fault.message);
    expect((await server.list('configmaps')).names).toEqual([]);
  });

  it('of plugins are the server\'s, and let nobody in', async () => {
    await start({ authz: [{ authorize: () => { throw new Error('broken'); } }] });
    expect((await refusal(server.list('configmaps'))).status).toMatchObject({ code: 500, reason: 'InternalError', message: 'Internal error occurred: broken' });
  });

  it('are not what a client\'s going away is', async () => {
    await start();
    await server.create('configmaps', configMap('a'));
    expect((await refusal(server.patch('configmaps', 'a', { data: { a: 'b' } }, { signal: AbortSignal.abort() }))).status).toMatchObject({ code: 504 });
  });
});

describe('the loopback handler', () => {
  it('hands on the cached objects themselves', async () => {
    await start();
    const handler = apiHandler(server.pipeline, (method, path) => Promise.resolve(`${method} ${path}`));
    const request = { resource: configMaps, subresource: '', namespace: 'default', name: '', query: {}, identity: admin };
    const made = await handler.handle({ ...request, verb: 'create', body: configMap('a') });
    expect(made).toMatchObject({ kind: 'object', code: 201, object: { metadata: { name: 'a' } }, warnings: [] });
    const listed = await handler.handle({ ...request, verb: 'list' });
    if (made.kind !== 'object' || listed.kind !== 'list') throw new Error('wrong kinds');
    expect(listed.list).toMatchObject({ kind: 'ConfigMapList', apiVersion: 'v1', metadata: { resourceVersion: '1' } });
    expect(listed.list.items[0]).toBe(made.object);
    const watched = await handler.handle({ ...request, verb: 'watch', query: { resourceVersion: '0' } });
    if (watched.kind !== 'watch') throw new Error('no watch');
    for await (const [event] of watched.events) { expect(event).toEqual({ type: 'ADDED', object: made.object }); break; }
    expect(await handler.handlePath('GET', '/version', undefined, admin)).toBe('GET /version');
  });

  it('neither keeps nor freezes what the caller can still change', async () => {
    await start();
    const handler = apiHandler(server.pipeline, () => Promise.resolve(undefined));
    const body = { ...configMap('a'), data: { x: 'y' } };
    await handler.handle({ verb: 'create', resource: configMaps, subresource: '', namespace: 'default', name: '', query: {}, identity: admin, body });
    body.data.x = 'changed';
    expect(await server.get('configmaps', 'a')).toMatchObject({ data: { x: 'y' } });
  });

  it('opens no streams', async () => {
    await start();
    await server.create('nodes', { kind: 'Node', apiVersion: 'v1', metadata: { name: 'n' }, ...{ status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }] } } });
    await server.create('pods', pod('p', { nodeName: 'n' }));
    const handler = apiHandler(server.pipeline, () => Promise.resolve(undefined));
    await expect(handler.handle({ verb: 'get', resource: pods, subresource: 'log', namespace: 'default', name: 'p', query: {}, identity: admin })).rejects.toBeInstanceOf(StatusError);
  });
});

describe('several servers over one store', () => {
  it('see each other\'s writes at once, and lose none', async () => {
    await start();
    const other = await TestServer.start({ storage: server.storage });
    for (let i = 0; i < 20; i++) {
      const made = await (i % 2 === 0 ? server : other).create('configmaps', configMap(`c${i}`));
      expect(await (i % 2 === 0 ? other : server).get('configmaps', `c${i}`)).toEqual(made);
    }
    await Promise.all(Array.from({ length: 40 }, (_, i) => (i % 2 === 0 ? server : other).patch('configmaps', 'c0', { data: { [`k${i}`]: 'v' } })));
    expect(Object.keys((await other.get<KubeObject & { data: object }>('configmaps', 'c0')).data)).toHaveLength(40);
    await other.stop();
  });
});

it('names every served kind by its group and version', async () => {
  await start();
  expect(() => resourceNamed('nothing.example.com')).toThrow();
  expect((await refusal(server.list({ group: 'example.com', version: 'v1', resource: 'things', kind: 'Thing', namespaced: true }))).status).toMatchObject({ code: 404, message: 'the server could not find the requested resource' });
});
