import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Wire, type Thing } from './cluster.ts';
import { definition, establish, eventually, open } from './definitions.ts';
import { Hooks, patching, type Answering } from './hooks.ts';

let wire: Wire;
let hooks: Hooks;
let namespace: string;
beforeAll(async () => {
  [wire, hooks] = await Promise.all([Wire.start(), Hooks.start()]);
  namespace = await wire.namespace('hooked', { hooked: 'yes' });
});
afterAll(async () => {
  await wire.stop();
  await hooks.stop();
});

const admission = '/apis/admissionregistration.k8s.io/v1';
const collections = { Mutating: `${admission}/mutatingwebhookconfigurations`, Validating: `${admission}/validatingwebhookconfigurations` };
type Sort = keyof typeof collections;

interface Hook {
  readonly groups?: readonly string[];
  readonly versions?: readonly string[];
  readonly resources: readonly string[];
  readonly operations?: readonly string[];
  readonly more?: object;
}
function configuration(
  sort: Sort,
  name: string,
  answer: Answering,
  { groups = [''], versions = ['v1'], resources, operations = ['CREATE'], more }: Hook,
  labels = {},
): Thing {
  return {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: `${sort}WebhookConfiguration`,
    metadata: { name, labels },
    webhooks: [
      {
        name: `${name}.example.com`,
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        namespaceSelector: { matchLabels: { hooked: 'yes' } },
        clientConfig: hooks.at(`/${name}`, answer),
        rules: [{ apiGroups: groups, apiVersions: versions, operations, resources }],
        ...more,
      },
    ],
  };
}
const markers = () => `/api/v1/namespaces/${namespace}/configmaps`;
const marker = (name: string, data: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, labels: { marker: 'yes' } },
  data,
});

/** Registers the webhook while `run` runs; waits until the API server calls it. */
async function registered<T>(sort: Sort, createdObject: Thing, isCalled: () => Promise<boolean>, run: () => Promise<T>): Promise<T> {
  await wire.create(collections[sort], createdObject);
  try {
    await eventually(isCalled, (there) => there);
    return await run();
  } finally {
    await wire.remove(`${collections[sort]}/${createdObject.metadata?.name}`);
  }
}

describe('[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin]', () => {
  it('should include webhook resources in discovery documents [Conformance]', async () => {
    const { groups } = await wire.get<{ groups: readonly { readonly name: string; readonly versions: readonly object[] }[] }>('/apis');
    const version = { groupVersion: 'admissionregistration.k8s.io/v1', version: 'v1' };
    expect(groups.find(({ name }) => name === 'admissionregistration.k8s.io')?.versions).toContainEqual(version);
    expect(await wire.get('/apis/admissionregistration.k8s.io')).toMatchObject({ versions: expect.arrayContaining([version]) });
    const { resources } = await wire.get<{ resources: readonly { readonly name: string }[] }>(admission);
    expect(resources.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['mutatingwebhookconfigurations', 'validatingwebhookconfigurations']),
    );
  });

  it.each([
    ['should be able to create and update validating webhook configurations with match conditions [Conformance]', 'Validating'],
    ['should be able to create and update mutating webhook configurations with match conditions [Conformance]', 'Mutating'],
  ] as const)('%s', async (_, sort) => {
    const first = [{ name: 'expression-1', expression: "object.metadata.namespace == 'production'" }];
    const createdObject = configuration(sort, `conditions-${sort.toLowerCase()}`, () => ({ allowed: true }), {
      resources: ['configmaps'],
      more: { matchConditions: first, namespaceSelector: { matchLabels: { nobody: 'yes' } } },
    });
    await wire.create(collections[sort], createdObject);
    const path = `${collections[sort]}/${createdObject.metadata?.name}`;
    const stored = await wire.get<Thing & { readonly webhooks: readonly object[] }>(path);
    expect(stored.webhooks).toMatchObject([{ matchConditions: first }]);
    const second = [...first, { name: 'expression-2', expression: "object.metadata.namespace == 'staging'" }];
    await wire.update(path, { ...stored, webhooks: [{ ...stored.webhooks[0], matchConditions: second }] });
    expect(await wire.get(path)).toMatchObject({ webhooks: [{ matchConditions: second }] });
    await wire.remove(path);
  });

  it('should reject validating webhook configurations with invalid match conditions [Conformance]', async () => {
    const more = { matchConditions: [{ name: 'invalid-expression-1', expression: '... [] bad expression' }] };
    const createdObject = configuration('Validating', 'invalid', () => ({ allowed: true }), { resources: ['configmaps'], more });
    const { status } = await wire.rejectionOf(wire.create(collections.Validating, createdObject));
    expect(status).toMatchObject({ code: 422, reason: 'Invalid' });
    expect(status.message).toContain('compilation failed');
  });

  it('should mutate pod and apply defaults after mutation [Conformance]', async () => {
    const container = { image: 'webhook-added-image', name: 'webhook-added-init-container' };
    const createdObject = configuration(
      'Mutating',
      'init',
      () => patching({ op: 'add', path: '/spec/initContainers', value: [container] }),
      {
        resources: ['pods'],
      },
    );
    const pods = `/api/v1/namespaces/${namespace}/pods`;
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { generateName: 'webhook-to-be-mutated-' },
      spec: { containers: [{ name: 'example', image: 'pause' }] },
    };
    const create = (query = '') =>
      wire.create<Thing & { readonly spec: { readonly initContainers?: readonly object[] } }>(`${pods}${query}`, pod);
    await registered(
      'Mutating',
      createdObject,
      async () => (await create('?dryRun=All')).spec.initContainers !== undefined,
      async () => {
        expect((await create()).spec.initContainers).toMatchObject([
          { ...container, terminationMessagePath: '/dev/termination-log', terminationMessagePolicy: 'File' },
        ]);
      },
    ); // prettier-ignore
  });

  const group = 'webhooks.example.com';
  const foos = () => `/apis/${group}/v1/namespaces/${namespace}/foos`;
  const foo = (name: string, data: object, version = 'v1') => ({
    apiVersion: `${group}/${version}`,
    kind: 'Foo',
    metadata: { name },
    data,
  });
  const stages: Answering = ({ request }) => {
    const data = (request.object?.['data'] ?? {}) as Record<string, string>;
    return data['mutation-start'] === 'yes' ? patching({ op: 'add', path: '/data/mutation-stage-1', value: 'yes' }) : { allowed: true };
  };

  it('should mutate custom resource, should mutate custom resource with different stored version [Conformance]', async () => {
    const versions = [{ name: 'v1' }, { name: 'v2' }].map((version) => ({
      ...version,
      schema: { openAPIV3Schema: { type: 'object', properties: { data: open } } },
    }));
    const path = await establish(wire, definition({ group, versions }));
    const createdObject = configuration('Mutating', 'stages', stages, {
      groups: [group],
      resources: ['foos'],
      operations: ['CREATE', 'UPDATE'],
    });
    const mutated = { 'mutation-start': 'yes', 'mutation-stage-1': 'yes' };
    await registered(
      'Mutating',
      createdObject,
      async () => (await wire.create(`${foos()}?dryRun=All`, foo('try', { 'mutation-start': 'yes' }))).data?.['mutation-stage-1'] === 'yes',
      async () => {
        expect((await wire.create(foos(), foo('cr-instance-1', { 'mutation-start': 'yes' }))).data).toEqual(mutated);
        await wire.patch(path, {
          spec: { versions: versions.map((version) => ({ ...version, served: true, storage: version.name === 'v2' })) },
        });
        // written in the new version, seen by the webhook in the one that its rule names
        const patched = await wire.patch(`${foos()}/cr-instance-1`, { data: { dummy: 'test' } });
        expect(patched.data).toEqual({ ...mutated, dummy: 'test' });
        const other = await wire.create(foos().replace('/v1/', '/v2/'), foo('cr-instance-2', { 'mutation-start': 'yes' }, 'v2'));
        expect(other).toMatchObject({ apiVersion: `${group}/v2`, data: mutated });
        expect(hooks.reviews.at(-1)?.request).toMatchObject({
          kind: { version: 'v1' },
          requestKind: { version: 'v2' },
          resource: { version: 'v1' },
          requestResource: { version: 'v2' },
          object: { apiVersion: `${group}/v1` },
        });
      },
    );
    await wire.remove(path);
    await wire.until(path, (object) => object === undefined);
  });

  it('should mutate custom resource with pruning [Conformance]', async () => {
    const text = { type: 'string' };
    const data = { type: 'object', properties: { 'mutation-start': text, 'mutation-stage-1': text } };
    const path = await establish(wire, definition({ group, schema: { type: 'object', properties: { data } } }));
    const both: Answering = () =>
      patching({ op: 'add', path: '/data/mutation-stage-1', value: 'yes' }, { op: 'add', path: '/data/mutation-stage-2', value: 'yes' });
    await registered(
      'Mutating',
      configuration('Mutating', 'pruned', both, { groups: [group], resources: ['foos'] }),
      async () => (await wire.create(`${foos()}?dryRun=All`, foo('try', { 'mutation-start': 'yes' }))).data?.['mutation-stage-1'] === 'yes',
      async () => {
        expect((await wire.create(foos(), foo('pruned', { 'mutation-start': 'yes' }))).data).toEqual({
          'mutation-start': 'yes',
          'mutation-stage-1': 'yes',
        });
      },
    );
    await wire.remove(path);
  });

  it('calls webhooks with the version of their rules, also for built-in kinds (matchPolicy Equivalent, not with Exact)', async () => {
    const autoscalers = (version: string) => `/apis/autoscaling/${version}/namespaces/${namespace}/horizontalpodautoscalers`;
    const spec = { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' }, maxReplicas: 3 };
    const autoscaler = { apiVersion: 'autoscaling/v2', kind: 'HorizontalPodAutoscaler', metadata: { generateName: 'hooked-' }, spec };
    const createdObject = (matchPolicy: string) =>
      configuration('Mutating', 'equivalent', () => patching({ op: 'add', path: '/spec/targetCPUUtilizationPercentage', value: 55 }), {
        groups: ['autoscaling'],
        resources: ['horizontalpodautoscalers'],
        more: { matchPolicy },
      });
    const create = () => wire.create(`${autoscalers('v2')}?dryRun=All`, autoscaler);
    const cpu = async () => JSON.stringify((await create()).spec).includes('"averageUtilization":55');
    await registered('Mutating', createdObject('Equivalent'), cpu, async () => {
      expect(hooks.reviews.at(-1)?.request).toMatchObject({
        kind: { version: 'v1' },
        requestKind: { version: 'v2' },
        object: { apiVersion: 'autoscaling/v1' },
      });
    });
    const old = async () => {
      await wire.create(`${autoscalers('v1')}?dryRun=All`, { ...autoscaler, apiVersion: 'autoscaling/v1' });
      return JSON.stringify(hooks.reviews.at(-1)?.request['requestKind']).includes('"v1"');
    };
    await registered('Mutating', createdObject('Exact'), old, async () => {
      expect(await cpu()).toBe(false);
    });
  });

  const answers: Readonly<Record<Sort, Answering>> = {
    Mutating: () => patching({ op: 'add', path: '/data/mutated', value: 'yes' }),
    Validating: () => ({ allowed: false, status: { message: 'no' } }),
  };
  /** Returns true if a ConfigMap is created unchanged. */
  const untouched = async () => {
    const { code, bytes } = await wire.call('POST', `${markers()}?dryRun=All`, { body: marker('list', { a: 'b' }) });
    return code === 201 && !bytes.includes('mutated');
  };

  it.each([
    ['patching/updating a mutating webhook should work [Conformance]', 'Mutating'],
    ['patching/updating a validating webhook should work [Conformance]', 'Validating'],
  ] as const)('%s', async (_, sort) => {
    const name = `changing-${sort.toLowerCase()}`;
    const createdObject = (operations: readonly string[]) =>
      configuration(sort, name, answers[sort], { resources: ['configmaps'], operations });
    const rules = (operations: readonly string[]) => createdObject(operations)['webhooks'];
    const path = `${collections[sort]}/${name}`;
    await registered(
      sort,
      createdObject(['CREATE']),
      async () => !(await untouched()),
      async () => {
        await wire.update(path, { ...(await wire.get(path)), webhooks: rules(['UPDATE']) });
        await eventually(untouched, (untouchedNow) => untouchedNow);
        await wire.patch(path, { webhooks: rules(['CREATE']) });
        await eventually(untouched, (untouchedNow) => !untouchedNow);
      },
    ); // prettier-ignore
  });

  it.each([
    ['listing mutating webhooks should work [Conformance], and deleting a collection of them', 'Mutating'],
    ['listing validating webhooks should work [Conformance], and deleting a collection of them', 'Validating'],
  ] as const)('%s', async (_, sort) => {
    const labels = { list: sort };
    for (let i = 0; i < 10; i++)
      await wire.create(
        collections[sort],
        configuration(sort, `list-${sort.toLowerCase()}-${i}`, answers[sort], { resources: ['configmaps'] }, labels),
      );
    const selected = `${collections[sort]}?labelSelector=list%3D${sort}`;
    expect((await wire.list(selected)).items).toHaveLength(10);
    await eventually(untouched, (untouchedNow) => !untouchedNow);
    await wire.remove(selected);
    await eventually(untouched, (untouchedNow) => untouchedNow);
  });
});
