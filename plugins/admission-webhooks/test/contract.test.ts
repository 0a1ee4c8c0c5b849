import type { KubeObject } from '@oarlock/api/object';
import {
  configMaps,
  customResourceDefinitions,
  endpointSlices,
  mutatingWebhookConfigurations,
  namespaces,
  pods,
  services,
  validatingWebhookConfigurations,
} from '@oarlock/api/resources';
import type { MutatingWebhook, ValidatingWebhook } from '@oarlock/api/types/admissionregistration-v1';
import type { ConfigMap } from '@oarlock/api/types/core-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import {
  Admission,
  isAdmissionDecision,
  type AdmissionPlugin,
  type AdmissionRequest,
  type MutationPass,
  type AdmissionDecision,
} from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { Client, Informers } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';
import { openAuthz } from './open-authz.ts';
import { patchAnswer, WebhookServer } from './webhook-server.ts';

const group = 'admissionregistration.k8s.io';
let server: WebhookServer;
beforeAll(async () => {
  server = await WebhookServer.start();
});
afterAll(() => server.stop());

type Hook = Partial<MutatingWebhook & ValidatingWebhook>;
const hook = (more: Hook = {}): MutatingWebhook & ValidatingWebhook => ({
  name: 'h.example.com',
  admissionReviewVersions: ['v1'],
  sideEffects: 'None',
  failurePolicy: 'Fail',
  timeoutSeconds: 5,
  clientConfig: { url: server.url(), caBundle: server.caBundle },
  rules: [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*/*'] }],
  ...more,
});
const configuration = (kind: 'Mutating' | 'Validating', ...webhooks: readonly Hook[]) => ({
  apiVersion: `${group}/v1`,
  kind: `${kind}WebhookConfiguration`,
  metadata: { name: 'c' },
  webhooks: webhooks.map(hook),
});

interface World {
  readonly mutating?: readonly Hook[];
  readonly validating?: readonly Hook[];
}
let dispose: (() => Promise<void>) | undefined;
async function open({ mutating, validating }: World) {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(namespaces, { metadata: { name: 'd', labels: { team: 'red' } } });
  if (mutating !== undefined) api.seed(mutatingWebhookConfigurations, configuration('Mutating', ...mutating));
  if (validating !== undefined) api.seed(validatingWebhookConfigurations, configuration('Validating', ...validating));
  const [created] = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .add({ plugin: openAuthz() })
    .add({ plugin })
    .get(Admission);
  if (created === undefined) throw new Error('not created');
  await api.settle();
  dispose = async () => {
    await (created as AdmissionPlugin & { stop?(): Promise<void> }).stop?.();
    await api.stop();
  };
  return { api, clock, plugin: created };
}
afterEach(async () => {
  await dispose?.();
  dispose = undefined;
  server.handler = () => ({ allowed: true });
  server.reviews.length = 0;
});

const map = (name: string, data: Record<string, string> = {}): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'd', name },
  data,
});
const create = (object: ConfigMap = map('m'), more: Partial<AdmissionRequest> = {}) => admissionRequest('CREATE', configMaps, object, more);
const statusOf = (answer: KubeObject | AdmissionDecision | undefined) =>
  answer !== undefined && isAdmissionDecision(answer) && !answer.allowed ? answer.status : undefined;
const validate = async (world: World, request = create()) => (await open(world)).plugin.validate?.(request);
const mutate = async (world: World, request = create()) => (await open(world)).plugin.mutate?.(request);

admissionContract('admission-webhooks', async () => {
  server.handler = ({ request }) =>
    (request.object?.['data'] as Record<string, string> | undefined)?.['bad'] === undefined
      ? { allowed: true }
      : { allowed: false, status: { message: 'the data is bad', code: 403, reason: 'Forbidden' } };
  const { plugin: created, api } = await open({ validating: [{}], mutating: [{}] });
  return {
    plugin: created,
    cases: [
      { title: 'good data', request: create(), expected: 'allowed' },
      { title: 'bad data', request: create(map('m', { bad: 'yes' })), expected: 'denied', message: /the data is bad/ },
    ],
    failDependencies: () => {
      server.handler = () => 503;
    },
    writes: () => api.requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb)).length,
  };
});

describe('[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin]', () => {
  it('should be able to deny pod and configmap creation', async () => {
    server.handler = () => ({
      allowed: false,
      status: { message: 'the configmap contains unwanted key and value', code: 403, reason: 'Forbidden' },
    });
    expect(statusOf(await validate({ validating: [{}] }))).toMatchObject({
      message: 'admission webhook "h.example.com" denied the request: the configmap contains unwanted key and value',
      reason: 'Forbidden',
      code: 403,
    });
    expect(server.reviews[0]).toMatchObject({
      kind: 'AdmissionReview',
      apiVersion: 'admission.k8s.io/v1',
      request: {
        kind: { group: '', version: 'v1', kind: 'ConfigMap' },
        resource: { group: '', version: 'v1', resource: 'configmaps' },
        requestKind: { group: '', version: 'v1', kind: 'ConfigMap' },
        name: 'm',
        namespace: 'd',
        operation: 'CREATE',
        userInfo: { username: 'alice', groups: ['system:authenticated'] },
        object: map('m'),
        oldObject: null,
        dryRun: false,
      },
    });
    expect(server.paths.at(-1)).toBe('/?timeout=5s');
  });

  it('should be able to deny attaching pod', async () => {
    server.handler = () => ({ allowed: false });
    const rules = [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CONNECT'], resources: ['pods/attach'] }];
    const attach = admissionRequest('CONNECT', pods, undefined, { subresource: 'attach', namespace: 'd', name: 'p' });
    expect(statusOf(await validate({ validating: [{ rules }] }, attach))).toMatchObject({
      message: 'admission webhook "h.example.com" denied the request without explanation',
      code: 400,
    });
  });

  it('should be able to deny custom resource creation, update and deletion', async () => {
    server.handler = () => ({ allowed: false, status: { reason: 'the custom resource' } });
    const rules = [{ apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE', 'DELETE'], resources: ['configmaps'] }];
    const { plugin: created } = await open({ validating: [{ rules }] });
    expect((await created.validate?.(create()))?.allowed).toBe(true);
    for (const request of [
      admissionRequest('UPDATE', configMaps, map('m'), { old: map('m') }),
      admissionRequest('DELETE', configMaps, undefined, { old: map('m') }),
    ])
      expect(statusOf(await created.validate?.(request))?.message).toBe(
        'admission webhook "h.example.com" denied the request: the custom resource',
      );
  });

  it('should deny crd creation', async () => {
    server.handler = () => ({ allowed: false, status: { message: 'the crd contains unwanted label' } });
    const crd = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: 'a.b.c' } };
    const verdict = await validate({ validating: [{}] }, admissionRequest('CREATE', customResourceDefinitions, crd as never));
    expect(statusOf(verdict)?.message).toContain('the crd contains unwanted label');
  });

  it('should mutate configmap', async () => {
    server.handler = ({ request }, path) =>
      patchAnswer({
        op: 'add',
        path: `/data/${path === '/second' ? 'stage-2' : 'stage-1'}`,
        value: String(Object.keys(request.object?.['data'] ?? {}).length),
      });
    const clientConfig = { url: server.url('/second'), caBundle: server.caBundle };
    const object = await mutate({ mutating: [{}, { name: 'second.example.com', clientConfig }] }, create(map('m', { start: 'yes' })));
    expect(object).toMatchObject({ data: { start: 'yes', 'stage-1': '1', 'stage-2': '2' } });
  });

  it('integers of 64 bits are sent and patched with all their digits', async () => {
    const [sent, patched] = [9_007_199_254_740_993n, -9_223_372_036_854_775_807n];
    server.handler = () => ({
      allowed: true,
      patchType: 'JSONPatch',
      patch: Buffer.from(`[{"op":"add","path":"/spec/b","value":${patched}}]`).toString('base64'),
    });
    const custom = { apiVersion: 'example.com/v1', kind: 'Custom', metadata: { namespace: 'd', name: 'm' }, spec: { a: sent } };
    const object = await mutate({ mutating: [{}] }, admissionRequest('CREATE', configMaps, custom as never));
    expect(server.reviews[0]?.request.object?.['spec']).toEqual({ a: sent });
    expect(object).toMatchObject({ spec: { a: sent, b: patched } });
  });

  it("should mutate everything except 'skip-me' configmaps", async () => {
    server.handler = () => patchAnswer({ op: 'add', path: '/metadata/labels', value: { seen: 'yes' } });
    const matchConditions = [{ name: 'not-skipped', expression: "object.metadata.name != 'skip-me'" }];
    const { plugin: created } = await open({ mutating: [{ matchConditions }] });
    expect(await created.mutate?.(create())).toMatchObject({ metadata: { labels: { seen: 'yes' } } });
    const skipped = map('skip-me');
    expect(await created.mutate?.(create(skipped))).toBe(skipped);
  });

  it('should reject mutating webhook configurations with invalid match conditions', async () => {
    const bad = configuration('Mutating', { matchConditions: [{ name: 'bad', expression: '...' }] });
    const verdict = await validate({}, admissionRequest('CREATE', mutatingWebhookConfigurations, bad));
    expect(verdict).toMatchObject({ allowed: false, reason: 'Invalid', field: 'webhooks[0].matchConditions[0].expression' });
  });

  it('evaluates stored match conditions with functions that new ones must not use', async () => {
    server.handler = () => ({ allowed: false });
    const matchConditions = [{ name: 'reversed', expression: 'object.metadata.name.reverse() == "ab"' }];
    const { plugin: created } = await open({ validating: [{ matchConditions }] });
    expect((await created.validate?.(create(map('ba'))))?.allowed).toBe(false);
    expect((await created.validate?.(create(map('ab'))))?.allowed).toBe(true);
    const old = configuration('Validating', { matchConditions });
    const creation = admissionRequest('CREATE', validatingWebhookConfigurations, old);
    expect(await created.validate?.(creation)).toMatchObject({ allowed: false, field: 'webhooks[0].matchConditions[0].expression' });
    const changed = configuration('Validating', { matchConditions, timeoutSeconds: 3 });
    expect(await created.validate?.(admissionRequest('UPDATE', validatingWebhookConfigurations, changed, { old }))).toEqual({
      allowed: true,
    });
  });

  it('should not be able to mutate or prevent deletion of webhook configuration objects', async () => {
    server.handler = () => ({ allowed: false });
    const { plugin: created } = await open({ validating: [{}], mutating: [{}] });
    const object = configuration('Validating', {});
    const deletion = admissionRequest('DELETE', validatingWebhookConfigurations, undefined, { old: object });
    expect((await created.validate?.(deletion))?.allowed).toBe(true);
    expect(await created.mutate?.(admissionRequest('CREATE', validatingWebhookConfigurations, object))).toBe(object);
    expect(server.reviews).toEqual([]);
  });

  it('should honor timeout', async () => {
    let release = () => {};
    const asked = new Promise<void>((startedAt) => {
      server.handler = () =>
        new Promise((resolve) => {
          release = () => resolve({ allowed: true });
          startedAt();
        });
    });
    const { plugin: created, clock } = await open({ validating: [{ timeoutSeconds: 1 }] });
    const answer = created.validate?.(create());
    await asked;
    await clock.advance(1000);
    expect(statusOf(await answer)).toMatchObject({
      code: 500,
      reason: 'InternalError',
      message: `Internal error occurred: failed calling webhook "h.example.com": failed to call webhook: Post "${server.url('/?timeout=1s')}": context deadline exceeded`,
    });
    release();
  });

  it('should unconditionally reject operations on fail closed webhook', async () => {
    const clientConfig = { url: 'https://127.0.0.1:1/', caBundle: server.caBundle };
    expect(statusOf(await validate({ validating: [{ clientConfig }] }))).toMatchObject({
      code: 500,
      message:
        'Internal error occurred: failed calling webhook "h.example.com": failed to call webhook: Post "https://127.0.0.1:1/?timeout=5s": dial tcp 127.0.0.1:1: connect: connection refused',
    });
    await dispose?.();
    const annotations: string[] = [];
    const lenient = create(map('m'), { annotate: (key, value) => void annotations.push(`${key}=${value}`) });
    expect(await validate({ validating: [{ clientConfig, failurePolicy: 'Ignore' }] }, lenient)).toEqual({ allowed: true });
    expect(annotations).toEqual(['failed-open.validating.webhook.admission.k8s.io/round_0_index_0=h.example.com']);
  });
});

describe('invalid responses', () => {
  const cases: readonly (readonly [string, () => object | number | string, string])[] = [
    [
      'no JSON',
      () => 'hello',
      `failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }`,
    ],
    [
      'a list',
      () => '[]',
      "failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value",
    ],
    [
      'a truncated response',
      () => '{',
      "failed to call webhook: couldn't get version/kind; json parse error: unexpected end of JSON input",
    ],
    [
      'another version',
      () => '{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"allowed":true}}',
      'failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion',
    ],
    ['no response', () => '{}', 'received invalid webhook response: webhook response was absent'],
    ['another uid', () => ({ uid: 'x', allowed: true }), 'received invalid webhook response: expected response.uid='],
    [
      'a server error',
      () => 503,
      'failed to call webhook: an error on the server ("out of order") has prevented the request from succeeding',
    ],
    ['another protocol', () => 101, 'the server switched protocols without a request to do so'],
    ['nothing there', () => 404, 'failed to call webhook: the server could not find the requested resource'],
    ['a patch', () => patchAnswer(), 'received invalid webhook response: validating webhook may not return response.patch'],
  ];
  it.each(cases)('%s', async (_, answer, message) => {
    server.handler = answer as never;
    const status = statusOf(await validate({ validating: [{}] }));
    expect(status?.message).toContain('Internal error occurred: failed calling webhook "h.example.com": ');
    expect(status?.message).toContain(message);
  });
  it('a certificate of an unknown CA', async () => {
    const status = statusOf(await validate({ validating: [{ clientConfig: { url: server.url() } }] }));
    expect(status?.message).toContain('x509: certificate signed by unknown authority');
  });
  const patches: readonly (readonly [string, () => object, string])[] = [
    ['that cannot be applied', () => patchAnswer({ op: 'remove', path: '/none/of/it' }), '"/none/of/it": missing value'],
    ['that is not JSON', () => ({ ...patchAnswer(), patch: Buffer.from('{').toString('base64') }), 'unexpected end of JSON input'],
    [
      'that is not a list',
      () => ({ ...patchAnswer(), patch: Buffer.from('{}').toString('base64') }),
      'json: cannot unmarshal object into Go value of type jsonpatch.Patch',
    ],
    [
      'with a value of the wrong type',
      () => patchAnswer({ op: 'add', path: '/data', value: 7 }),
      'json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string',
    ],
  ];
  it.each(patches)('a patch %s is an error that no failure policy ignores', async (_, answer, message) => {
    server.handler = answer as never;
    for (const failurePolicy of ['Fail', 'Ignore'])
      expect(statusOf(await mutate({ mutating: [{ failurePolicy }] }))).toMatchObject({
        code: 500,
        message: expect.toSatisfy((text: string) => text.startsWith('Internal error occurred: ') && !text.includes('webhook')),
        details: { causes: [{ message: expect.stringContaining(message) }] },
      });
  });
  it('a patch of another type is an error, unless it is empty', async () => {
    server.handler = () => ({ ...patchAnswer({ op: 'add', path: '/data', value: {} }), patchType: 'Merge' });
    expect(statusOf(await mutate({ mutating: [{}] }))?.message).toBe(
      'Internal error occurred: failed calling webhook "h.example.com": unsupported patch type "Merge"',
    );
    server.handler = () => ({ ...patchAnswer(), patchType: 'Merge' });
    expect(statusOf(await mutate({ mutating: [{}] }))).toBeUndefined();
  });
  it('a patched field that the type does not have is dropped', async () => {
    server.handler = () => patchAnswer({ op: 'add', path: '/nothing', value: 1 }, { op: 'add', path: '/data', value: { a: 'b' } });
    const next = await mutate({ mutating: [{}] });
    expect(next).toMatchObject({ data: { a: 'b' } });
    expect(next).not.toHaveProperty('nothing');
  });
});

describe('reinvocation', () => {
  const calls = (again: boolean, memory = new Map<object, unknown>()): MutationPass & { asked: boolean } => {
    const round = {
      isReinvocation: again,
      pluginState: memory,
      asked: false,
      reinvoke() {
        round.asked = true;
      },
    };
    return round;
  };
  it('applies to webhooks with IfNeeded before a change', async () => {
    server.handler = ({ request }, path) => {
      const data = (request.object?.['data'] ?? {}) as Record<string, string>;
      return path === '/b' && data['b'] === undefined ? patchAnswer({ op: 'add', path: '/data/b', value: 'b' }) : { allowed: true };
    };
    const at = (path: string) => ({ url: server.url(path), caBundle: server.caBundle });
    const { plugin: created } = await open({
      mutating: [
        { name: 'a.example.com', clientConfig: at('/a'), reinvocationPolicy: 'IfNeeded' },
        { name: 'n.example.com', clientConfig: at('/n') },
        { name: 'b.example.com', clientConfig: at('/b'), reinvocationPolicy: 'IfNeeded' },
      ],
    });
    server.paths.length = 0;
    const first = calls(false);
    const object = (await created.mutate?.(create(map('m'), { mutation: first }))) as ConfigMap;
    expect(first.asked).toBe(true);
    await created.mutate?.(create(object, { mutation: calls(true, first.pluginState) }));
    expect(server.paths.map((path) => path.split('?')[0])).toEqual(['/a', '/n', '/b', '/a']);
  });
  it('applies to all webhooks with IfNeeded if another plugin changed the object in between', async () => {
    const { plugin: created } = await open({ mutating: [{ reinvocationPolicy: 'IfNeeded' }] });
    const first = calls(false);
    await created.mutate?.(create(map('m'), { mutation: first }));
    await created.mutate?.(create(map('m', { other: 'x' }), { mutation: calls(true, first.pluginState) }));
    expect(server.reviews).toHaveLength(2);
  });
});

describe('webhook calls', () => {
  it('add up to the latency of mutating webhooks; of validating webhooks the slowest counts', async () => {
    const { plugin: created, clock } = await open({
      mutating: [{}, { name: 'i.example.com' }],
      validating: [{}, { name: 'i.example.com' }],
    });
    server.handler = async () => {
      await clock.advance(100);
      return { allowed: true };
    };
    const latencies: [string, number][] = [];
    const request = create(map('m'), { addLatency: (step, ms) => void latencies.push([step, ms]) });
    await created.mutate?.(request);
    await created.validate?.(request);
    expect(latencies).toEqual([
      ['mutating-webhook', 100],
      ['mutating-webhook', 100],
      // both are called before one answers
      ['validating-webhook', 200],
    ]);
  });

  it('use the endpoints of the Service', async () => {
    const clientConfig = { service: { namespace: 'd', name: 'hook', path: '/review', port: 8443 }, caBundle: server.caBundle };
    const { plugin: created, api } = await open({ validating: [{ clientConfig }] });
    expect(statusOf(await created.validate?.(create()))?.message).toContain(
      'Post "https://hook.d.svc:8443/review?timeout=5s": service "hook" not found',
    );
    api.seed(services, { metadata: { namespace: 'd', name: 'hook' }, spec: { ports: [{ name: 'https', port: 8443 }] } });
    expect(statusOf(await created.validate?.(create()))?.message).toContain('no endpoints available for service "hook"');
    api.seed(endpointSlices, {
      metadata: { namespace: 'd', name: 'hook-x', labels: { 'kubernetes.io/service-name': 'hook' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['127.0.0.1'] }, { addresses: ['192.0.2.1'], conditions: { ready: false } }],
      ports: [{ name: 'https', port: server.port }],
    });
    expect(await created.validate?.(create())).toEqual({ allowed: true });
    expect(server.paths.at(-1)).toBe('/review?timeout=5s');
  });

  it('reuse connections', async () => {
    const { plugin: created } = await open({ validating: [{}] });
    const before = server.connections;
    for (let i = 0; i < 10; i++) await created.validate?.(create());
    expect(server.connections - before).toBe(1);
  });

  it('add warnings and annotations, and match labels', async () => {
    server.handler = () => ({ allowed: true, warnings: ['take care'], auditAnnotations: { why: 'because' } });
    const warnings: string[] = [];
    const request = create(map('m'), {
      warn: (text) => void warnings.push(text),
      annotate: (key, value) => void warnings.push(`${key}=${value}`),
    });
    await validate({ validating: [{ namespaceSelector: { matchLabels: { team: 'red' } } }] }, request);
    expect(warnings).toEqual(['take care', 'h.example.com/why=because']);
    await dispose?.();
    server.reviews.length = 0;
    await validate(
      { validating: [{ namespaceSelector: { matchLabels: { team: 'blue' } } }, { objectSelector: { matchLabels: { a: 'b' } } }] },
      request,
    );
    expect(server.reviews).toEqual([]);
  });

  it('can deny a deletion, mutating or not', async () => {
    server.handler = (_, path) => ({ allowed: path !== '/never' });
    const clientConfig = { url: server.url('/never'), caBundle: server.caBundle };
    const deletion = admissionRequest('DELETE', configMaps, undefined, { old: map('m') });
    expect(statusOf(await validate({ mutating: [{ clientConfig }] }, deletion))?.message).toContain('denied the request');
    await dispose?.();
    expect(await validate({ mutating: [{}], validating: [{}] }, deletion)).toEqual({ allowed: true });
    expect(server.reviews.at(-1)?.request).toMatchObject({ operation: 'DELETE', object: null, oldObject: map('m') });
  });

  it('are skipped on a dry run if they may have side effects', async () => {
    const dry = create(map('m'), { dryRun: true });
    expect(statusOf(await validate({ validating: [{ sideEffects: 'Some' }] }, dry))).toMatchObject({
      code: 400,
      message: 'admission webhook "h.example.com" does not support dry run',
    });
    await dispose?.();
    expect(await validate({ validating: [{ sideEffects: 'NoneOnDryRun' }] }, dry)).toEqual({ allowed: true });
    expect(server.reviews[0]?.request['dryRun']).toBe(true);
  });

  it('do not exist without configurations', async () => {
    const { plugin: created } = await open({});
    expect(created.isIdle?.('CREATE', configMaps, '')).toBe(true);
    expect(created.isIdle?.('CREATE', validatingWebhookConfigurations, '')).toBe(false);
  });
});
