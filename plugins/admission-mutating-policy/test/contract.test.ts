import type { KubeObject } from '@oarlock/api/object';
import { configMaps, deployments, mutatingAdmissionPolicies, mutatingAdmissionPolicyBindings, namespaces } from '@oarlock/api/resources';
import type { Deployment } from '@oarlock/api/types/apps-v1';
import type { ConfigMap } from '@oarlock/api/types/core-v1';
import type {
  MutatingAdmissionPolicy,
  MutatingAdmissionPolicyBinding,
  MutatingAdmissionPolicyBindingSpec,
  MutatingAdmissionPolicySpec,
  Mutation,
} from '@oarlock/api/types/admissionregistration-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission, isAdmissionDecision, type AdmissionRequest, type MutationPass, type AdmissionDecision } from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { Client, Informers } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';
import { openAuthz } from './open-authz.ts';

const group = 'admissionregistration.k8s.io';
const everything = { resourceRules: [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['CREATE', 'UPDATE'], resources: ['*'] }] };
const policy = (spec: MutatingAdmissionPolicySpec, name = 'p'): MutatingAdmissionPolicy => ({
  apiVersion: `${group}/v1`,
  kind: 'MutatingAdmissionPolicy',
  metadata: { name },
  spec: { failurePolicy: 'Fail', reinvocationPolicy: 'Never', matchConstraints: everything, ...spec },
});
const binding = (spec: MutatingAdmissionPolicyBindingSpec = {}, name = 'b'): MutatingAdmissionPolicyBinding => ({
  apiVersion: `${group}/v1`,
  kind: 'MutatingAdmissionPolicyBinding',
  metadata: { name },
  spec: { policyName: 'p', ...spec },
});
const applying = (expression: string): Mutation => ({ patchType: 'ApplyConfiguration', applyConfiguration: { expression } });
const patching = (expression: string): Mutation => ({ patchType: 'JSONPatch', jsonPatch: { expression } });
const deployment = (more: object = {}): Deployment =>
  ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { namespace: 'd', name: 'web', labels: { app: 'web' } },
    spec: { replicas: 1, selector: {}, template: { spec: { containers: [{ name: 'main', image: 'i' }] } } },
    ...more,
  }) as Deployment;
const create = (object: KubeObject = deployment(), more: Partial<AdmissionRequest> = {}) =>
  admissionRequest('CREATE', deployments, object as Deployment, more);

interface World {
  readonly policies: readonly MutatingAdmissionPolicy[];
  readonly bindings?: readonly MutatingAdmissionPolicyBinding[];
  readonly others?: readonly KubeObject[];
}
async function open({ policies, bindings = [binding()], others = [] }: World) {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(namespaces, { metadata: { name: 'd' } });
  api.seed(configMaps, ...others);
  api.seed(mutatingAdmissionPolicies, ...policies);
  api.seed(mutatingAdmissionPolicyBindings, ...bindings);
  const [created] = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .add({ plugin: openAuthz() })
    .add({ plugin })
    .get(Admission);
  if (created === undefined) throw new Error('not created');
  await api.settle();
  return { api, plugin: created };
}
async function mutate(world: World, request = create()): Promise<KubeObject | AdmissionDecision | undefined> {
  const { api, plugin: created } = await open(world);
  try {
    return await created.mutate?.(request);
  } finally {
    await api.stop();
  }
}
const messageOf = (answer: KubeObject | AdmissionDecision | undefined) =>
  answer !== undefined && isAdmissionDecision(answer) && !answer.allowed ? answer.message : 'allowed';

admissionContract('admission-mutating-policy', async () => {
  const { api, plugin: created } = await open({
    policies: [policy({ mutations: [applying('Object{metadata: Object.metadata{labels: {"seen": "yes"}}}')] })],
  });
  return {
    plugin: created,
    cases: [
      {
        title: 'a label',
        request: create(),
        expected: 'allowed',
        check: (object) => expect(object?.metadata?.labels).toEqual({ app: 'web', seen: 'yes' }),
      },
      { title: 'a deletion', request: admissionRequest('DELETE', deployments, undefined, { old: deployment() }), expected: 'ignored' },
      {
        title: 'a policy that does not compile',
        request: admissionRequest('CREATE', mutatingAdmissionPolicies, policy({ mutations: [applying('1')] })),
        expected: 'denied',
        message: /must evaluate to Object/,
      },
    ],
    writes: () => api.requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb)).length,
    dispose: () => api.stop(),
  };
});

describe('MutatingAdmissionPolicy [Privileged:ClusterAdmin]', () => {
  it('should mutate a Deployment', async () => {
    const spec = {
      variables: [{ name: 'wanted', expression: 'object.spec.replicas + 2' }],
      mutations: [applying('Object{spec: Object.spec{replicas: variables.wanted}}')],
    };
    expect(await mutate({ policies: [policy(spec)] })).toMatchObject({ spec: { replicas: 3, template: deployment().spec?.template } });
  });

  it('should mutate a Deployment with annotations', async () => {
    const mutations = [applying('Object{metadata: Object.metadata{annotations: {"my-key/a.b": "my-value"}}}')];
    expect(await mutate({ policies: [policy({ mutations })] })).toMatchObject({
      metadata: { name: 'web', annotations: { 'my-key/a.b': 'my-value' } },
    });
  });
});

describe('mutations', () => {
  const sidecar = `Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
    containers: [Object.spec.template.spec.containers{name: "mesh", image: "m"}]}}}}`;
  it('merge lists by their keys', async () => {
    expect(await mutate({ policies: [policy({ mutations: [applying(sidecar)] })] })).toMatchObject({
      spec: {
        template: {
          spec: {
            containers: [
              { name: 'main', image: 'i' },
              { name: 'mesh', image: 'm' },
            ],
          },
        },
      },
    });
  });
  it('apply JSON patches in order', async () => {
    const mutations = [
      patching(
        '[JSONPatch{op: "test", path: "/spec/replicas", value: 1}, JSONPatch{op: "replace", path: "/spec/replicas", value: object.spec.replicas + 1}]',
      ),
      patching(
        '[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/r"), value: string(object.spec.replicas)}]',
      ),
      patching('object.spec.replicas == 2 ? [JSONPatch{op: "add", path: "/metadata/annotations", value: {"a": "b"}}] : []'),
    ];
    expect(await mutate({ policies: [policy({ mutations })] })).toMatchObject({
      metadata: { labels: { app: 'web', 'example.com/r': '2' }, annotations: { a: 'b' } },
      spec: { replicas: 2 },
    });
  });
  it('of several policies see the earlier mutations', async () => {
    const plus = [applying('Object{spec: Object.spec{replicas: object.spec.replicas * 2 + 1}}')];
    const world = {
      policies: [policy({ mutations: plus }, 'a'), policy({ mutations: plus }, 'b')],
      bindings: [binding({ policyName: 'a' }, 'a'), binding({ policyName: 'b' }, 'b')],
    };
    expect(await mutate(world)).toMatchObject({ spec: { replicas: 7 } });
  });
  it('take parameters', async () => {
    const spec = {
      paramKind: { apiVersion: 'v1', kind: 'ConfigMap' },
      mutations: [applying('Object{spec: Object.spec{replicas: int(params.data.replicas)}}')],
    };
    const others: readonly ConfigMap[] = [{ metadata: { namespace: 'd', name: 'defaults' }, data: { replicas: '5' } }];
    const paramRef = { name: 'defaults', parameterNotFoundAction: 'Deny' };
    expect(await mutate({ policies: [policy(spec)], bindings: [binding({ paramRef })], others })).toMatchObject({ spec: { replicas: 5 } });
    expect(messageOf(await mutate({ policies: [policy(spec)], bindings: [binding({ paramRef })] }))).toContain(
      'no params found for policy binding',
    );
  });
  it('are skipped if a match condition is false', async () => {
    const spec = { matchConditions: [{ name: 'c', expression: "object.metadata.name != 'web'" }], mutations: [applying(sidecar)] };
    const object = deployment();
    expect(await mutate({ policies: [policy(spec)] }, create(object))).toBe(object);
  });
});

it('a stored policy may use functions that new expressions must not use', async () => {
  const expression = 'Object{metadata: Object.metadata{labels: {"seen": "sey".reverse()}}}';
  const stored = policy({ mutations: [applying(expression)] });
  expect(await mutate({ policies: [stored] })).toMatchObject({ metadata: { labels: { seen: 'yes' } } });
  const { api, plugin: created } = await open({ policies: [] });
  try {
    const creation = admissionRequest('CREATE', mutatingAdmissionPolicies, stored);
    expect(await created.validate?.(creation)).toMatchObject({ allowed: false, message: expect.stringContaining('reverse') as unknown });
    const changed = policy({ mutations: [applying(expression)], failurePolicy: 'Ignore' });
    const update = admissionRequest('UPDATE', mutatingAdmissionPolicies, changed, { old: stored });
    expect(await created.validate?.(update)).toEqual({ allowed: true });
  } finally {
    await api.stop();
  }
});

describe('errors', () => {
  const failing: readonly (readonly [string, Mutation])[] = [
    ["expression 'Object{spec: object.spec.none}' resulted in error: no such key: none", applying('Object{spec: object.spec.none}')],
    ['unexpected type name "Object.status", expected "Object.spec"', applying('Object{spec: Object.status{replicas: 1}}')],
    [
      'may not mutate atomic arrays, maps or structs: .spec.selector',
      applying('Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"a": "b"}}}}'),
    ],
    ['JSON Patch: ', patching('[JSONPatch{op: "remove", path: "/spec/none"}]')],
  ];
  it.each(failing)('%s', async (message, mutation) => {
    expect(messageOf(await mutate({ policies: [policy({ mutations: [mutation] })] }))).toContain(
      `policy 'p' with binding 'b' denied request: `,
    );
    expect(messageOf(await mutate({ policies: [policy({ mutations: [mutation] })] }))).toContain(message);
    const object = deployment();
    expect(await mutate({ policies: [policy({ mutations: [mutation], failurePolicy: 'Ignore' })] }, create(object))).toBe(object);
  });
});

it('policy with reinvocationPolicy IfNeeded runs again after a later mutation', async () => {
  const memory = new Map<object, unknown>();
  const passes = (again: boolean): MutationPass & { asked: number } => {
    const round = { isReinvocation: again, pluginState: memory, asked: 0, reinvoke: () => void round.asked++ };
    return round;
  };
  const count = [applying('Object{spec: Object.spec{replicas: object.spec.replicas + 1}}')];
  const { api, plugin: created } = await open({
    policies: [policy({ mutations: count, reinvocationPolicy: 'IfNeeded' }, 'a'), policy({ mutations: count }, 'b')],
    bindings: [binding({ policyName: 'a' }, 'a'), binding({ policyName: 'b' }, 'b')],
  });
  const first = passes(false);
  const object = (await created.mutate?.(create(deployment(), { mutation: first }))) as KubeObject;
  expect([first.asked, object]).toMatchObject([2, { spec: { replicas: 3 } }]);
  expect(await created.mutate?.(create(object, { mutation: passes(true) }))).toMatchObject({ spec: { replicas: 4 } });
  await api.stop();
});
