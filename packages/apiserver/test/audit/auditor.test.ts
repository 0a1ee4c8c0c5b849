import { badRequest, failure } from '@oarlock/api/status';
import { pods } from '@oarlock/api/resources';
import { silentLogger } from '@oarlock/primitives/logger';
import type { AuditEvent } from '@oarlock/spi/audit';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { Registry } from 'prom-client';
import { afterEach, describe, expect, it } from 'vitest';
import type { AuditScope } from '../../src/audit/audit-policy.ts';
import type { LatencyTracked } from '../../src/endpoints/request/latency-tracker.ts';
import { AuditMetrics } from '../../src/audit/audit-metrics.ts';
import { Auditor } from '../../src/audit/auditor.ts';
import { configMap, encoded } from '../support/fake-pipeline.ts';
import { startServer, type ServerSettings, type TestServer } from '../support/start-server.ts';

const map = '/api/v1/namespaces/default/configmaps/a';
const maps = '/api/v1/namespaces/default/configmaps';
let server: TestServer;
let events: AuditEvent[];
const at = (level: AuditScope['level'], more: Partial<AuditScope> = {}) => {
  const scope: AuditScope = { level, omitStages: new Set(), omitManagedFields: false, ...more };
  return () => scope;
};
async function start(settings: ServerSettings = {}) {
  events = [];
  server = await startServer({ audit: [{ record: (event) => void events.push(event) }], ...settings });
  server.pipeline.object(configMap('a'));
}
afterEach(() => server.stop());
const good = { authorization: 'Bearer good' };
const agent = { 'user-agent': 'kubectl/v1.36.0' };
const complete = () => events.filter(({ stage }) => stage === 'ResponseComplete');

it('the auditor records the stages RequestReceived and ResponseComplete of each request as Events of audit.k8s.io/v1', async () => {
  await start({ clock: new FakeClock() }); // a slow request has annotations
  await server.http1('GET', `${map}?pretty=1`, {
    headers: { ...good, ...agent, 'audit-id': 'given', 'x-forwarded-for': '192.0.2.7, junk' },
  });
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}000Z$/);
  const common = {
    kind: 'Event',
    apiVersion: 'audit.k8s.io/v1',
    level: 'Metadata',
    auditID: 'given',
    requestURI: `${map}?pretty=1`,
    verb: 'get',
    user: { username: 'token-user', groups: ['testers', 'system:authenticated'] },
    sourceIPs: ['192.0.2.7', '127.0.0.1'],
    userAgent: 'kubectl/v1.36.0',
    objectRef: { resource: 'configmaps', namespace: 'default', name: 'a', apiVersion: 'v1' },
    requestReceivedTimestamp: time,
    stageTimestamp: time,
  };
  expect(events).toEqual([
    { ...common, stage: 'RequestReceived' },
    { ...common, stage: 'ResponseComplete', responseStatus: { metadata: {}, code: 200 } },
  ]);
});

it('the auditor records requests for non-resource paths with their authorization decision', async () => {
  await start();
  await server.http1('GET', '/version');
  expect(events.at(-1)).toMatchObject({
    requestURI: '/version',
    verb: 'get',
    responseStatus: { code: 200 },
    annotations: { 'authorization.k8s.io/decision': 'allow' },
  });
  expect(events.at(-1)?.objectRef).toBeUndefined();
});

it('the auditor records requests whose authentication failed', async () => {
  await start();
  await server.http1('GET', map, { headers: { authorization: 'Bearer bad' } });
  expect(events).toMatchObject([
    { stage: 'ResponseStarted', user: {}, responseStatus: { code: 401, message: 'Authentication failed, attempted: bearer' } },
  ]);
});

it('the auditor records the user and the impersonated user', async () => {
  await start();
  await server.http1('GET', map, { headers: { ...good, 'impersonate-user': 'eve', 'impersonate-group': 'staff' } });
  expect(events.map(({ user, impersonatedUser }) => [user.username, impersonatedUser])).toEqual([
    ['token-user', undefined],
    ['token-user', { username: 'eve', groups: ['staff', 'system:authenticated'] }],
  ]);
});

it('the auditor records the impersonation constraint', async () => {
  await start({
    authz: [{ authorize: ({ verb }) => (verb === 'impersonate' ? { decision: 'no-opinion' } : { decision: 'allow', reason: '' }) }],
  });
  await server.http1('GET', map, { headers: { ...good, 'impersonate-user': 'eve' } });
  expect(complete()[0]?.authenticationMetadata).toEqual({ impersonationConstraint: 'impersonate:user-info' });
});

it('the auditor records rejections with their reason', async () => {
  await start({ authz: [{ authorize: () => ({ decision: 'no-opinion', reason: 'no rule' }) }] });
  await server.http1('GET', '/metrics', { headers: good });
  expect(complete()).toMatchObject([
    {
      responseStatus: { status: 'Failure', reason: 'Forbidden', code: 403 },
      annotations: { 'authorization.k8s.io/decision': 'forbid', 'authorization.k8s.io/reason': 'no rule' },
    },
  ]);
});

it('the auditor records annotations of admission in later events and keeps the first value of a key', async () => {
  await start();
  server.pipeline.answer = (request) => {
    request.annotate?.('policy/first', 'a');
    request.annotate?.('policy/first', 'b');
    throw badRequest('no');
  };
  await server.http1('GET', map, { headers: good });
  expect(events.map(({ stage, annotations }) => [stage, annotations])).toEqual([
    ['RequestReceived', undefined],
    ['ResponseComplete', { 'policy/first': 'a' }],
  ]);
});

it('the auditor records the stage Panic after an internal error', async () => {
  await start();
  server.pipeline.answer = () => {
    throw new Error('out of order');
  };
  expect((await server.http1('GET', map, { headers: good })).code).toBe(500);
  expect(events.map(({ stage, responseStatus }) => [stage, responseStatus])).toEqual([
    ['RequestReceived', undefined],
    ['Panic', { metadata: {}, status: 'Failure', reason: 'InternalError', code: 500, message: "APIServer panic'd: out of order" }],
  ]);
});

it('the auditor annotates slow requests with their latency, and service accounts with their credential', async () => {
  const clock = new FakeClock();
  const annotations = { 'authentication.k8s.io/legacy-token': 'system:serviceaccount:d:robot' };
  await start({
    clock,
    authn: [{ authenticate: () => ({ outcome: 'authenticated', identity: { name: 'robot', groups: [] }, annotations }) }],
  });
  const { answer } = server.pipeline;
  server.pipeline.answer = async (request) => {
    await clock.advance(750);
    return answer(request);
  };
  await server.http1('GET', map);
  expect(complete().map((event) => event.annotations)).toEqual([{ ...annotations, 'apiserver.latency.k8s.io/total': '750ms' }]);
});

it('the auditor annotates slow requests with the latency of their steps', async () => {
  const clock = new FakeClock();
  const slow =
    <T>(ms: number, result: T) =>
    async () => {
      await clock.advance(ms);
      return result;
    };
  await start({
    clock,
    authn: [{ authenticate: slow(20, { outcome: 'authenticated' as const, identity: { name: 'admin', groups: [] } }) }],
    authz: [{ authorize: slow(300, { decision: 'allow' as const, reason: '' }) }],
  });
  const { answer } = server.pipeline;
  server.pipeline.answer = async (request) => {
    const { latencies }: LatencyTracked = request;
    latencies?.addLatency('authorization', 1.5);
    latencies?.addLatency('mutating-webhook', 30);
    latencies?.addLatency('etcd', 2);
    await clock.advance(400);
    return answer(request);
  };
  await server.http1('GET', map, { headers: { 'impersonate-user': 'jane' } });
  expect(complete().map((event) => event.annotations)).toEqual([
    {
      'apiserver.latency.k8s.io/authentication': '20ms',
      'apiserver.latency.k8s.io/authorization': '1.5ms',
      // two permissions: that of constrained impersonation, and that of the user
      'apiserver.latency.k8s.io/impersonation': '600ms',
      'apiserver.latency.k8s.io/mutating-webhook': '30ms',
      'apiserver.latency.k8s.io/etcd': '2ms',
      'apiserver.latency.k8s.io/total': '1.02s',
    },
  ]);
});

describe('audit level', () => {
  const body = { ...configMap('a'), metadata: { name: 'b', managedFields: [{ manager: 'me' }] }, data: { secret: 'x' } };
  const post = () => {
    server.pipeline.object(configMap('b'), 201);
    return server.http1('POST', maps, { headers: { ...good, 'content-type': 'application/json' }, body: JSON.stringify(body) });
  };

  it('Metadata records the name of the object without its content', async () => {
    await start();
    await post();
    expect(complete()).toMatchObject([{ objectRef: { namespace: 'default', name: 'b' } }]);
    expect(JSON.stringify(events)).not.toContain('secret');
    expect(complete()[0]?.responseObject).toBeUndefined();
  });

  it('Request records the request body', async () => {
    await start({ auditPolicy: at('Request') });
    await post();
    expect(complete()).toMatchObject([{ level: 'Request', requestObject: body }]);
    expect(complete()[0]?.responseObject).toBeUndefined();
    expect(events[0]?.requestObject).toBeUndefined();
  });

  it('RequestResponse records the response, without managedFields if the policy omits them', async () => {
    await start({ auditPolicy: at('RequestResponse', { omitManagedFields: true, omitStages: new Set(['RequestReceived']) }) });
    await post();
    expect(events).toHaveLength(1);
    expect(events[0]?.requestObject).toEqual({ ...body, metadata: { name: 'b' } });
    expect(events[0]?.responseObject).toMatchObject({ kind: 'ConfigMap', metadata: { name: 'b' } });
    server.pipeline.answer = () => {
      throw failure('Conflict', 'too late');
    };
    await server.http1('GET', map, { headers: good });
    expect(events[1]?.responseObject).toMatchObject({ kind: 'Status', status: 'Failure', reason: 'Conflict', code: 409 });
  });

  it('RequestResponse records lists', async () => {
    await start({ auditPolicy: at('RequestResponse') });
    server.pipeline.list([encoded(configMap('a')), encoded(configMap('b'))]);
    await server.http1('GET', maps, { headers: good });
    expect(complete()[0]?.responseObject).toMatchObject({
      kind: 'ConfigMapList',
      items: [{ metadata: { name: 'a' } }, { metadata: { name: 'b' } }],
    });
  });

  it('None records nothing', async () => {
    await start({ auditPolicy: () => undefined });
    await server.http1('GET', map, { headers: good });
    await server.http1('GET', map, { headers: { authorization: 'Bearer bad' } });
    expect(events).toEqual([]);
  });
});

it('the auditor records the stage ResponseStarted of watches', async () => {
  await start();
  server.pipeline.watch(async function* () {});
  await server.http1('GET', `${maps}?watch=1`, { headers: good });
  expect(events.map(({ stage, verb }) => [stage, verb])).toEqual([
    ['RequestReceived', 'watch'],
    ['ResponseStarted', 'watch'],
    ['ResponseComplete', 'watch'],
  ]);
});

describe('a sink with back pressure', () => {
  it('delays the next request until it has accepted the events', async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const stages: string[] = [];
    await start({
      audit: [
        {
          record: ({ stage, auditID }) => {
            stages.push(`${auditID} ${stage}`);
            return stage === 'ResponseComplete' ? gate : undefined;
          },
        },
      ],
    });
    await server.http1('GET', map, { headers: { ...good, 'audit-id': 'one' } });
    const second = server.http1('GET', map, { headers: { ...good, 'audit-id': 'two' } });
    // a rejected request does not wait; meanwhile the other request advanced as far as possible
    expect((await server.http1('GET', map, { headers: { authorization: 'Bearer bad' } })).code).toBe(401);
    expect(stages).not.toContain('two RequestReceived');
    release();
    expect((await second).code).toBe(200);
    expect(stages).toContain('two RequestReceived');
  });

  it('fails a request that cannot be audited with 500', async () => {
    await start({ audit: [{ record: ({ stage }) => (stage === 'RequestReceived' ? Promise.reject(new Error('full')) : undefined) }] });
    expect((await server.http1('GET', map, { headers: good })).code).toBe(500);
    expect(server.pipeline.requests).toEqual([]);
  });
});

it('the auditor records in-process requests', async () => {
  await start();
  const seen: AuditEvent[] = [];
  const clock = new FakeClock();
  const auditor = new Auditor([{ record: (event) => void seen.push(event) }], { clock, log: silentLogger });
  auditor.setPolicy(at('Request'));
  const scheduler = { name: 'system:kube-scheduler', groups: ['system:authenticated'] };
  const request = {
    verb: 'create',
    resource: pods,
    subresource: 'binding',
    namespace: 'a',
    name: 'p',
    query: { fieldManager: 'kube-scheduler' },
    body: { kind: 'Binding' },
    identity: scheduler,
    userAgent: 'kube-scheduler/v1.36.0',
  } as const;
  const { handle } = auditor.auditPipeline({
    handle(asked) {
      asked.annotate?.('authorization.k8s.io/decision', 'allow');
      throw badRequest('no such node');
    },
  });
  await expect(handle(request)).rejects.toThrow('no such node');
  expect(seen).toMatchObject([
    { stage: 'RequestReceived', requestURI: '/api/v1/namespaces/a/pods/p/binding?fieldManager=kube-scheduler' },
    {
      stage: 'ResponseComplete',
      verb: 'create',
      user: { username: 'system:kube-scheduler' },
      userAgent: 'kube-scheduler/v1.36.0',
      objectRef: { resource: 'pods', namespace: 'a', name: 'p', subresource: 'binding' },
      requestObject: { kind: 'Binding' },
      responseStatus: { code: 400, message: 'no such node' },
      annotations: { 'authorization.k8s.io/decision': 'allow' },
    },
  ]);
  await expect(auditor.auditPaths(async () => 'ok')('GET', '/version?a', undefined, scheduler)).resolves.toBe('ok');
  expect(seen.at(-1)).toMatchObject({ requestURI: '/version?a', verb: 'get', responseStatus: { code: 200 } });
});

it('the auditor counts events, requests by level, and requests that a failing sink rejects', async () => {
  const registry = new Registry();
  const sinks = [{ record: ({ requestURI }: AuditEvent) => (requestURI === '/bad' ? Promise.reject(new Error('full')) : undefined) }];
  const auditor = new Auditor(sinks, { clock: new FakeClock(), log: silentLogger, metrics: new AuditMetrics(registry) });
  const kubelet = { name: 'kubelet', groups: [] };
  const get = auditor.auditPaths(async () => 'ok');
  await get('GET', '/version', undefined, kubelet);
  await expect(get('GET', '/bad', undefined, kubelet)).rejects.toThrow('cannot be audited');
  auditor.setPolicy(() => undefined);
  await get('GET', '/livez', undefined, kubelet);
  const text = await registry.metrics();
  for (const line of ['event_total 3', 'level_total{level="Metadata"} 2', 'level_total{level="None"} 1', 'requests_rejected_total 1'])
    expect(text).toContain(`apiserver_audit_${line}\n`);
});
