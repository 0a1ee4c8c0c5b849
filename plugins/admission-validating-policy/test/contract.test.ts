import type { KubeObject } from '@oarlock/api/object';
import {
  configMaps,
  deployments,
  namespaces,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '@oarlock/api/resources';
import type { Deployment } from '@oarlock/api/types/apps-v1';
import { failure } from '@oarlock/api/status';
import type {
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
  ValidatingAdmissionPolicyBindingSpec,
  ValidatingAdmissionPolicySpec,
} from '@oarlock/api/types/admissionregistration-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission, type AdmissionPlugin, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import type { Attributes } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { openAuthz } from './open-authz.ts';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

const group = 'admissionregistration.k8s.io';
const onDeployments = {
  resourceRules: [{ apiGroups: ['apps'], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['deployments'] }],
};
const policy = (spec: ValidatingAdmissionPolicySpec, name = 'p'): ValidatingAdmissionPolicy => ({
  apiVersion: `${group}/v1`,
  kind: 'ValidatingAdmissionPolicy',
  metadata: { name },
  spec: { failurePolicy: 'Fail', matchConstraints: onDeployments, ...spec },
});
const binding = (spec: Partial<ValidatingAdmissionPolicyBindingSpec> = {}, name = 'b'): ValidatingAdmissionPolicyBinding => ({
  apiVersion: `${group}/v1`,
  kind: 'ValidatingAdmissionPolicyBinding',
  metadata: { name },
  spec: { policyName: 'p', validationActions: ['Deny'], ...spec },
});
const deployment = (replicas: number, labels: Record<string, string> = {}): Deployment => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { namespace: 'd', name: 'web', labels },
  spec: { replicas, selector: {}, template: {} },
});
const create = (replicas: number, more: Partial<AdmissionRequest> = {}, labels: Record<string, string> = {}) =>
  admissionRequest('CREATE', deployments, deployment(replicas, labels), more);
const atMost = (n: number): ValidatingAdmissionPolicySpec => ({ validations: [{ expression: `object.spec.replicas <= ${n}` }] });

interface World {
  readonly policies?: readonly ValidatingAdmissionPolicy[];
  readonly bindings?: readonly ValidatingAdmissionPolicyBinding[];
  readonly others?: readonly KubeObject[];
  readonly allowed?: (attributes: Attributes) => boolean | Promise<boolean>;
}

async function open({ policies = [], bindings = [binding()], others = [], allowed }: World) {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(namespaces, { metadata: { name: 'd', labels: { team: 'red' } } }, { metadata: { name: 'other' } });
  api.seed(configMaps, ...others);
  api.seed(validatingAdmissionPolicies, ...policies);
  api.seed(validatingAdmissionPolicyBindings, ...bindings);
  const host = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, api.informers)
    .add({ plugin: openAuthz(allowed) })
    .add({ plugin });
  const [created] = host.get(Admission);
  if (created === undefined) throw new Error('not created');
  await api.settle();
  const metrics = () => host.plugins.find(({ name }) => name === plugin.id)?.metrics.metrics();
  return { api, plugin: created, metrics };
}

const messageOf = (verdict: AdmissionDecision | undefined) => (verdict === undefined || verdict.allowed ? 'allowed' : verdict.message);
/** Opens a world, evaluates one request, closes the world. */
async function ask(world: World, request: AdmissionRequest): Promise<AdmissionDecision | undefined> {
  const { api, plugin: created } = await open(world);
  try {
    return await created.validate?.(request);
  } finally {
    await api.stop();
  }
}

admissionContract('admission-validating-policy', async () => {
  const { api, plugin: created } = await open({ policies: [policy(atMost(3))] });
  return {
    plugin: created,
    cases: [
      { title: 'few replicas', request: create(3), expected: 'allowed' },
      {
        title: 'many replicas',
        request: create(4),
        expected: 'denied',
        message: "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: object.spec.replicas <= 3",
      },
      {
        title: 'another kind',
        request: admissionRequest('CREATE', configMaps, { metadata: { namespace: 'd', name: 'c' } }),
        expected: 'ignored',
      },
      {
        title: 'a policy that does not compile',
        request: admissionRequest('CREATE', validatingAdmissionPolicies, policy({ validations: [{ expression: 'nothing.here' }] })),
        expected: 'denied',
        message: /undeclared reference to 'nothing'/,
      },
    ],
    writes: () => api.requests.filter(({ verb }) => !['get', 'list', 'watch'].includes(verb)).length,
    dispose: () => api.stop(),
  };
});

describe('ValidatingAdmissionPolicy [Privileged:ClusterAdmin]', () => {
  it('should validate against a Deployment', async () => {
    const spec: ValidatingAdmissionPolicySpec = {
      validations: [
        {
          expression: 'object.spec.replicas > 1',
          messageExpression: "'must have more than one replica, has ' + string(object.spec.replicas)",
        },
        { expression: 'object.spec.replicas < 100', message: ' too many ', reason: 'Forbidden' },
      ],
    };
    expect(messageOf(await ask({ policies: [policy(spec)] }, create(1)))).toBe(
      "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: must have more than one replica, has 1",
    );
    const verdict = await ask({ policies: [policy(spec)] }, create(100));
    expect(verdict).toMatchObject({
      status: {
        code: 403,
        reason: 'Forbidden',
        message: `deployments.apps "web" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too many`,
        details: { name: 'web', group: 'apps', kind: 'deployments' },
      },
    });
    expect(messageOf(await ask({ policies: [policy(spec)] }, create(5)))).toBe('allowed');
  });

  it('should allow expressions to refer variables', async () => {
    const spec: ValidatingAdmissionPolicySpec = {
      variables: [
        { name: 'replicas', expression: 'object.spec.replicas' },
        { name: 'oddReplicas', expression: 'variables.replicas % 2 == 1' },
        { name: 'unused', expression: '1 / 0' },
      ],
      validations: [
        { expression: 'variables.replicas > 1' },
        { expression: 'variables.oddReplicas', messageExpression: "'even: ' + string(variables.replicas)" },
      ],
    };
    expect(messageOf(await ask({ policies: [policy(spec)] }, create(4)))).toContain('denied request: even: 4');
    expect(messageOf(await ask({ policies: [policy(spec)] }, create(5)))).toBe('allowed');
  });

  it('should type check a policy before it is stored', async () => {
    const bad = policy({ validations: [{ expression: 'object.spec.replicas >' }] });
    const createdPolicy = await ask({}, admissionRequest('CREATE', validatingAdmissionPolicies, bad));
    expect(createdPolicy).toMatchObject({ allowed: false, reason: 'Invalid', field: 'spec.validations[0].expression' });
    expect(messageOf(createdPolicy)).toContain('compilation failed: ERROR: <input>:1:23: Syntax error');
    // an existing policy can stay
    expect(await ask({}, admissionRequest('UPDATE', validatingAdmissionPolicies, bad, { old: bad }))).toEqual({ allowed: true });
  });
});

describe('expressions with functions that new expressions must not use', () => {
  const text = "undeclared reference to 'math'";
  const expression = 'math.least(object.spec.replicas, 9) <= 3';
  const stored = policy({ variables: [{ name: 'limit', expression: 'math.abs(-3)' }], validations: [{ expression }] });
  const update = (spec: ValidatingAdmissionPolicySpec) =>
    ask({}, admissionRequest('UPDATE', validatingAdmissionPolicies, policy(spec), { old: stored }));

  it('are rejected in new policies', async () => {
    expect(messageOf(await ask({}, admissionRequest('CREATE', validatingAdmissionPolicies, stored)))).toContain(text);
  });

  it('are accepted in updates that do not change them', async () => {
    expect(messageOf(await update({ ...stored.spec, failurePolicy: 'Ignore' }))).toBe('allowed');
    const added = { expression: 'object.spec.replicas < variables.limit' };
    expect(messageOf(await update({ ...stored.spec, validations: [{ expression, message: 'too many' }, added] }))).toBe('allowed');
    expect(messageOf(await update({ ...stored.spec, validations: [{ expression: `${expression} || false` }] }))).toContain(text);
    const wrong = { expression: 'object.spec.replicas < variables.limit + "x"' };
    expect(messageOf(await update({ ...stored.spec, validations: [wrong] }))).toContain('no matching overload');
  });

  it('are evaluated', async () => {
    expect(messageOf(await ask({ policies: [stored] }, create(3)))).toBe('allowed');
    expect(messageOf(await ask({ policies: [stored] }, create(4)))).toContain(`failed expression: ${expression}`);
  });
});

describe('errors', () => {
  const failing = { validations: [{ expression: 'object.spec.nothing == 1' }] };
  it('are handled by the failure policy', async () => {
    expect(messageOf(await ask({ policies: [policy(failing)] }, create(1)))).toBe(
      "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: expression 'object.spec.nothing == 1' resulted in error: no such key: nothing",
    );
    expect(messageOf(await ask({ policies: [policy({ ...failing, failurePolicy: 'Ignore' })] }, create(1)))).toBe('allowed');
  });
  it('include an exceeded cost budget', async () => {
    const list = `[${'1,'.repeat(200)}]`;
    const spec = { validations: [{ expression: `${list}.all(a, ${list}.all(b, ${list}.all(c, a == b || c > 0)))` }] };
    expect(messageOf(await ask({ policies: [policy(spec)] }, create(1)))).toContain(
      'validation failed due to running out of cost budget, no further validation rules will be run',
    );
  });
});

describe('matched requests', () => {
  const strict = policy(atMost(0));
  const isDenied = async (world: World, request = create(1)) =>
    messageOf(await ask({ policies: [strict], ...world }, request)) !== 'allowed';
  it('are determined by rules, selectors and conditions', async () => {
    expect(await isDenied({})).toBe(true);
    expect(await isDenied({ bindings: [] })).toBe(false);
    expect(await isDenied({ bindings: [binding({ matchResources: { namespaceSelector: { matchLabels: { team: 'red' } } } })] })).toBe(true);
    expect(await isDenied({ bindings: [binding({ matchResources: { namespaceSelector: { matchLabels: { team: 'blue' } } } })] })).toBe(
      false,
    );
    expect(await isDenied({ bindings: [binding({ matchResources: { objectSelector: { matchLabels: { app: 'x' } } } })] })).toBe(false);
    expect(
      await isDenied(
        { bindings: [binding({ matchResources: { objectSelector: { matchLabels: { app: 'x' } } } })] },
        create(1, {}, { app: 'x' }),
      ),
    ).toBe(true);
    const excluded = { ...onDeployments, excludeResourceRules: [{ ...onDeployments.resourceRules[0], resourceNames: ['web'] }] };
    expect(await isDenied({ policies: [policy({ ...atMost(0), matchConstraints: excluded })] })).toBe(false);
    const conditions = (expression: string) => policy({ ...atMost(0), matchConditions: [{ name: 'c', expression }] });
    expect(await isDenied({ policies: [conditions("request.userInfo.username == 'alice'")] })).toBe(true);
    expect(await isDenied({ policies: [conditions("request.userInfo.username == 'bob'")] })).toBe(false);
    expect(await isDenied({}, admissionRequest('UPDATE', deployments, deployment(1), { old: deployment(0), subresource: 'status' }))).toBe(
      false,
    );
  });
  it('never include policies themselves', async () => {
    const everything = { resourceRules: [{ apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*/*'] }] };
    const request = admissionRequest('CREATE', validatingAdmissionPolicyBindings, binding());
    expect(await isDenied({ policies: [policy({ matchConstraints: everything, validations: [{ expression: 'false' }] })] }, request)).toBe(
      false,
    );
  });
});

describe('parameters', () => {
  const paramKind = { apiVersion: 'v1', kind: 'ConfigMap' };
  const limited = policy({ paramKind, validations: [{ expression: 'object.spec.replicas <= int(params.data.max)' }] });
  const limit = (name: string, max: string, labels = {}): KubeObject => ({
    metadata: { namespace: 'd', name, labels },
    ...{ data: { max } },
  });
  const decide = async (paramRef: ValidatingAdmissionPolicyBindingSpec['paramRef'], others: readonly KubeObject[] = [limit('l', '3')]) =>
    messageOf(await ask({ policies: [limited], others, bindings: [binding(paramRef && { paramRef })] }, create(4)));
  it('are selected by name or selector, and may be missing', async () => {
    expect(await decide({ name: 'l' })).toContain('failed expression: object.spec.replicas <= int(params.data.max)');
    expect(await decide({ name: 'l' }, [limit('l', '9')])).toBe('allowed');
    expect(
      await decide({ selector: { matchLabels: { use: 'yes' } } }, [limit('a', '9', { use: 'yes' }), limit('b', '3', { use: 'yes' })]),
    ).toContain('failed expression');
    expect(await decide({ name: 'gone', parameterNotFoundAction: 'Allow' })).toBe('allowed');
    expect(await decide({ name: 'gone', parameterNotFoundAction: 'Deny' })).toBe(
      "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
    );
  });
});

describe('authors of policies with parameters', () => {
  const paramKind = { apiVersion: 'v1', kind: 'ConfigMap' };
  const parametrized = policy({ paramKind, validations: [{ expression: 'params != null' }] });
  const reads = (namespace: string, name: string) => (attributes: Attributes) =>
    attributes.kind === 'resource' &&
    attributes.verb === 'get' &&
    attributes.resource === 'configmaps' &&
    attributes.namespace === namespace &&
    attributes.name === name;
  const make = (allowed: World['allowed'], more: Partial<AdmissionRequest> = {}) =>
    ask({ ...(allowed && { allowed }) }, admissionRequest('CREATE', validatingAdmissionPolicies, parametrized, more));
  it('need permission to read all parameters of the kind', async () => {
    expect(await make(() => false)).toMatchObject({
      allowed: false,
      reason: 'Invalid',
      field: 'spec.paramKind',
      message:
        'Forbidden: user alice must have "get" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)',
    });
    expect(await make(reads('*', '*'))).toEqual({ allowed: true });
    expect(await make(() => false, { identity: { name: 'root', groups: ['system:masters'] } })).toEqual({ allowed: true });
    expect(await make(() => false, { old: parametrized, operation: 'UPDATE' })).toEqual({ allowed: true });
  });
  it('need permission to read the parameters of a binding', async () => {
    const bound = binding({ paramRef: { name: 'c', namespace: 'd' } });
    const bind = (allowed: NonNullable<World['allowed']>) =>
      ask({ policies: [parametrized], allowed }, admissionRequest('CREATE', validatingAdmissionPolicyBindings, bound));
    expect(await bind(reads('d', 'c'))).toEqual({ allowed: true });
    expect(await bind(reads('d', 'other'))).toMatchObject({ allowed: false, field: 'spec.paramRef' });
  });
});

describe('actions', () => {
  const act = async (actions: readonly string[], spec: ValidatingAdmissionPolicySpec = atMost(0)) => {
    const warnings: string[] = [];
    const annotations: Record<string, string> = {};
    const verdict = await ask(
      { policies: [policy(spec)], bindings: [binding({ validationActions: actions })] },
      create(1, {
        warn: (message) => void warnings.push(message),
        annotate: (key, value) => {
          annotations[key] = value;
        },
      }),
    );
    return { allowed: verdict?.allowed, warnings, annotations };
  };
  it('deny, warn and audit', async () => {
    expect(await act(['Warn', 'Audit'])).toEqual({
      allowed: true,
      warnings: ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: object.spec.replicas <= 0"],
      annotations: {
        'validation.policy.admission.k8s.io/validation_failure': JSON.stringify([
          {
            message: 'failed expression: object.spec.replicas <= 0',
            policy: 'p',
            binding: 'b',
            expressionIndex: 0,
            validationActions: ['Warn', 'Audit'],
          },
        ]),
      },
    });
    expect(await act(['Deny', 'Audit'])).toMatchObject({ allowed: false, warnings: [] });
  });
  it('add the audit annotations of the policy', async () => {
    const spec = {
      auditAnnotations: [
        { key: 'replicas', valueExpression: "'has ' + string(object.spec.replicas)" },
        { key: 'nothing', valueExpression: 'null' },
      ],
    };
    expect(await act(['Deny'], spec)).toEqual({ allowed: true, warnings: [], annotations: { 'p/replicas': 'has 1' } });
  });
});

describe('variables of expressions', () => {
  const holds = async (expression: string, world: World = {}, request: AdmissionRequest = create(1)) =>
    messageOf(await ask({ policies: [policy({ validations: [{ expression }] })], ...world }, request));
  it('include the request, its namespace and the old object', async () => {
    for (const expression of [
      "request.operation == 'CREATE' && request.kind.kind == 'Deployment' && request.resource.resource == 'deployments'",
      "request.namespace == 'd' && request.name == 'web' && !request.dryRun",
      "'system:authenticated' in request.userInfo.groups",
      "namespaceObject.metadata.labels.team == 'red'",
      'oldObject == null',
    ])
      expect(await holds(expression), expression).toBe('allowed');
  });
  it('include authorizer decisions, synchronous and asynchronous', async () => {
    const may = (attributes: Attributes) =>
      attributes.kind === 'resource' && attributes.verb === 'bless' && attributes.identity.name === 'alice' && attributes.name === 'web';
    const asks = "authorizer.group('apps').resource('deployments').namespace('d').name('web').check('bless').allowed()";
    expect(await holds(asks, { allowed: may })).toBe('allowed');
    expect(await holds(asks, { allowed: () => false })).toContain('failed expression');
    expect(await holds(asks, { allowed: async (attributes) => may(attributes) })).toBe('allowed');
    expect(await holds("authorizer.requestResource.check('bless').allowed()", { allowed: may })).toBe('allowed');
    const account = ({ identity }: Attributes) => identity.name === 'system:serviceaccount:d:robot';
    expect(await holds("authorizer.serviceAccount('d', 'robot').path('/healthz').check('get').allowed()", { allowed: account })).toBe(
      'allowed',
    );
  });
});

it('use the API server while the cache is not synced', async () => {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(namespaces, { metadata: { name: 'd' } });
  api.failNext({ verb: 'watch' }, failure('ServiceUnavailable', 'later'), 10_000);
  api.seed(validatingAdmissionPolicies, policy(atMost(0)));
  api.seed(validatingAdmissionPolicyBindings, binding());
  const [created] = new PluginHost({ clock })
    .provide(Client, api.client())
    .provide(Informers, { forResource: (resource) => ({ ...unsynced, resource }) as never })
    .add({ plugin: openAuthz() })
    .add({ plugin })
    .get(Admission) as readonly AdmissionPlugin[];
  expect(created?.isIdle?.('CREATE', deployments, '')).toBe(false);
  expect(messageOf(await created?.validate?.(create(1)))).toContain('denied request');
  await api.stop();
});
const unsynced = {
  hasSynced: false,
  addEventHandler: () => () => {},
  get: () => undefined,
  list: () => [],
  addIndexer: () => {},
  size: 0,
};

describe('failed checks', () => {
  it('are counted by policy, binding and action, those of errors apart', async () => {
    const faulty = { validations: [{ expression: 'object.spec.replicas / 0 > 1' }] };
    const world = await open({
      policies: [policy(atMost(3)), policy(faulty, 'faulty')],
      bindings: [binding({ validationActions: ['Warn', 'Audit'] }), binding({ policyName: 'faulty' }, 'f')],
    });
    try {
      await world.plugin.validate?.(create(3));
      await world.plugin.validate?.(create(4));
      const lines = ((await world.metrics()) ?? '')
        .split('\n')
        .filter((line) => line.startsWith('apiserver_validating_admission_policy_check_total{'));
      const line = (labels: string, count: number) => `apiserver_validating_admission_policy_check_total{${labels}} ${count}`;
      expect(lines).toEqual([
        line('policy="faulty",policy_binding="f",error_type="invalid_error",enforcement_action="deny"', 2),
        line('policy="p",policy_binding="b",error_type="no_error",enforcement_action="warn"', 1),
        line('policy="p",policy_binding="b",error_type="no_error",enforcement_action="audit"', 1),
      ]);
      expect(await world.metrics()).toMatch(/^apiserver_validating_admission_policy_check_duration_seconds_count\{policy="faulty".* 2$/m);
    } finally {
      await world.api.stop();
    }
  });
});
