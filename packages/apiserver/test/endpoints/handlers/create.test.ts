import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { certificateRequest } from '@oarlock/testing/sample-certificates';
import { configMap, pod, rejectionOf, TestServer } from '../../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

describe('create', () => {
  it('accepts a resourceVersion in a dry run only, as upstream', async () => {
    const body = configMap('a', {}, { resourceVersion: '7' });
    const dry = await server.object('create', 'configmaps', { namespace: 'default', body, query: { dryRun: 'All' } });
    expect(dry.metadata?.resourceVersion).toBe('7');
    expect((await rejectionOf(server.create('configmaps', body))).message).toBe(
      'resourceVersion should not be set on objects to be created',
    );
  });

  it.each([
    ['pods', pod('a')],
    ['configmaps', configMap('a', { x: 'y' })],
    ['services', { apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' }, spec: { ports: [{ port: 80 }], clusterIP: 'None' } }],
  ])('returns for a dry run what it stores: %s', async (resource, body) => {
    const request = { namespace: 'default', body };
    const dry = await server.object('create', resource, { ...request, query: { dryRun: 'All' } });
    const real = await server.object('create', resource, request);
    const comparable = ({ metadata, ...rest }: typeof dry) => ({ ...rest, metadata: { ...metadata, uid: '', resourceVersion: '' } });
    expect(comparable(dry)).toEqual(comparable(real));
  });

  it('sets uid and creation time, whatever the client sends', async () => {
    const createdObject = await server.create(
      'configmaps',
      configMap(
        'a',
        {},
        {
          uid: 'mine',
          creationTimestamp: '2000-01-01T00:00:00Z',
          generation: 7,
          selfLink: '/x',
          deletionTimestamp: '2000-01-01T00:00:00Z',
          managedFields: [{ manager: 'me', operation: 'Update' }],
        },
      ),
    );
    expect(createdObject.metadata).toEqual({
      name: 'a',
      namespace: 'default',
      uid: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4/),
      creationTimestamp: '2026-01-01T00:00:00Z',
      resourceVersion: '1',
    });
  });

  it('returns 201 with the object and its resourceVersion', async () => {
    const response = await server.handle('create', 'configmaps', { namespace: 'default', body: configMap('a') });
    expect(response).toMatchObject({ kind: 'object', code: 201, item: { revision: 1 } });
  });

  it('rejects an existing name, and reports if its object is being deleted', async () => {
    await server.create('configmaps', configMap('a'));
    expect((await rejectionOf(server.create('configmaps', configMap('a')))).status).toMatchObject({
      code: 409,
      reason: 'AlreadyExists',
      message: 'configmaps "a" already exists',
      details: { name: 'a', kind: 'configmaps' },
    });
    await server.create('configmaps', configMap('b', {}, { finalizers: ['example.com/hold'] }));
    await server.remove('configmaps', 'b');
    expect((await rejectionOf(server.create('configmaps', configMap('b')))).message).toBe(
      'object is being deleted: configmaps "b" already exists',
    );
  });

  it("generates names of upstream's alphabet with at most 63 characters", async () => {
    const createdObject = await server.create('configmaps', configMap('', {}, { generateName: 'web-' }));
    expect(createdObject.metadata?.name).toMatch(/^web-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    expect(createdObject.metadata?.generateName).toBe('web-');
    const long = await server.create('configmaps', configMap('', {}, { generateName: 'x'.repeat(80) }));
    expect(long.metadata?.name).toHaveLength(63);
  });

  it('retries other generated names before it fails', async () => {
    let call = 0;
    const names: string[] = [];
    const fixed = { next: () => (call++ < 15 ? 0 : 0.5), uuid: () => '00000000-0000-4000-8000-000000000000' };
    const other = await TestServer.start({ random: fixed });
    for (let i = 0; i < 2; i++)
      names.push((await other.create('configmaps', configMap('', {}, { generateName: 'a-' }))).metadata?.name ?? '');
    expect(names).toEqual(['a-bbbbb', expect.stringMatching(/^a-/)]);
    await other.stop();
    const stuck = await TestServer.start({ random: { ...fixed, next: () => 0 } });
    await stuck.create('configmaps', configMap('', {}, { generateName: 'a-' }));
    expect((await rejectionOf(stuck.create('configmaps', configMap('', {}, { generateName: 'a-' })))).status).toMatchObject({
      reason: 'AlreadyExists',
      message: 'configmaps "a-bbbbb" already exists, the server was not able to generate a unique name for the object',
      details: { retryAfterSeconds: 1 },
    });
    await stuck.stop();
  });

  it('checks the object against the request', async () => {
    const message = async (body: unknown, options: object = {}) =>
      (await rejectionOf(server.create('configmaps', body as never, { namespace: 'default', ...options }))).message;
    expect(await message(configMap('a', {}, { namespace: 'other' }))).toBe(
      'the namespace of the provided object does not match the namespace sent on the request',
    );
    expect(await message(configMap('a'), { namespace: '' })).toBe('an empty namespace may not be set during creation');
    expect(await message(configMap('a', {}, { resourceVersion: '5' }))).toBe('resourceVersion should not be set on objects to be created');
    expect(await message({ kind: 'Secret', apiVersion: 'v1', metadata: { name: 'a' } })).toBe(
      'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion',
    );
    expect(await message({ ...configMap('a'), apiVersion: 'v2' })).toBe(
      'the API version in the data (v2) does not match the expected API version (v1)',
    );
    expect(await message({ ...configMap('a'), data: { n: 1 } })).toBe(
      'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string',
    );
    expect(await message('text')).toContain('the object provided is unrecognized (must be of type ConfigMap)');
    expect(await message(configMap('a'), { query: { dryRun: 'Some' } })).toBe(
      'CreateOptions.meta.k8s.io "" is invalid: dryRun: Invalid value: ["Some"]: supported values: "All"'.replace(
        'Invalid value',
        'Unsupported value',
      ),
    );
    expect(await message(configMap('a'), { query: { fieldManager: 'x'.repeat(129) } })).toContain('may not be more than 128 bytes');
  });

  it("validates with upstream's messages and causes", async () => {
    const error = await rejectionOf(server.create('configmaps', configMap('Bad_Name')));
    expect(error.status).toMatchObject({
      code: 422,
      reason: 'Invalid',
      details: { kind: 'ConfigMap', name: 'Bad_Name', causes: [{ reason: 'FieldValueInvalid', field: 'metadata.name' }] },
    });
    expect(error.message).toMatch(
      /^ConfigMap "Bad_Name" is invalid: metadata\.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain/,
    );
    expect((await rejectionOf(server.create('configmaps', configMap('')))).message).toBe(
      'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
    );
    expect((await rejectionOf(server.create('pods', pod('a', { containers: [] })))).message).toBe(
      'Pod "a" is invalid: spec.containers: Required value',
    );
    expect((await server.list('configmaps')).names).toEqual([]);
  });

  it('drops unknown fields and does not modify the body', async () => {
    const body = { ...configMap('a'), nonsense: 1, data: { x: 'y' } };
    const createdObject = await server.create('configmaps', body);
    expect(createdObject).not.toHaveProperty('nonsense');
    expect(Object.isFrozen(body)).toBe(false);
  });

  it('does not write in a dry run', async () => {
    const query = { dryRun: 'All' };
    const createdObject = await server.create('configmaps', configMap('a'), { query });
    expect(createdObject.metadata).toMatchObject({ name: 'a', uid: expect.any(String) as string });
    expect((await server.list('configmaps')).names).toEqual([]);
    await server.create('configmaps', configMap('a'));
    expect((await rejectionOf(server.create('configmaps', configMap('a'), { query }))).reason).toBe('AlreadyExists');
    expect((await rejectionOf(server.create('configmaps', configMap('B'), { query }))).reason).toBe('Invalid');
  });
});

describe('object creation by kind', () => {
  it('sets the phase and QoS class of pods', async () => {
    const status = async (name: string, resources: object, more: object = {}) =>
      ((await server.create('pods', pod(name, { containers: [{ name: 'main', image: 'i', resources }], ...more }))) as { status?: unknown })
        .status;
    expect(await status('a', {})).toEqual({ phase: 'Pending', qosClass: 'BestEffort' });
    expect(await status('b', { requests: { cpu: '1' } })).toEqual({ phase: 'Pending', qosClass: 'Burstable' });
    expect(await status('c', { limits: { cpu: '1', memory: '1Gi' } })).toEqual({ phase: 'Pending', qosClass: 'Guaranteed' });
    expect(await status('d', { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '500m' } })).toMatchObject({ qosClass: 'Burstable' });
    expect(await status('e', {}, { schedulingGates: [{ name: 'example.com/wait' }] })).toMatchObject({
      conditions: [
        {
          type: 'PodScheduled',
          status: 'False',
          reason: 'SchedulingGated',
          message: 'Scheduling is blocked due to non-empty scheduling gates',
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ],
    });
    expect(await server.get('pods', 'a')).toMatchObject({ metadata: { generation: 1 } });
  });

  it('adds pod labels to affinity and spread terms with matchLabelKeys', async () => {
    const createdObject = await server.create(
      'pods',
      pod(
        'a',
        {
          affinity: {
            podAntiAffinity: {
              requiredDuringSchedulingIgnoredDuringExecution: [
                {
                  topologyKey: 'zone',
                  labelSelector: { matchLabels: { app: 'x' } },
                  matchLabelKeys: ['rev'],
                  mismatchLabelKeys: ['other'],
                },
              ],
            },
          },
          topologySpreadConstraints: [
            {
              maxSkew: 1,
              topologyKey: 'zone',
              whenUnsatisfiable: 'DoNotSchedule',
              labelSelector: { matchLabels: { app: 'x' } },
              matchLabelKeys: ['rev'],
            },
          ],
        },
        { labels: { rev: '7' } },
      ),
    );
    expect(createdObject).toMatchObject({
      spec: {
        affinity: {
          podAntiAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: [
              { labelSelector: { matchLabels: { app: 'x' }, matchExpressions: [{ key: 'rev', operator: 'In', values: ['7'] }] } },
            ],
          },
        },
        topologySpreadConstraints: [{ labelSelector: { matchExpressions: [{ key: 'rev', operator: 'In', values: ['7'] }] } }],
      },
    });
  });

  it('warns about pod names that are not DNS labels', async () => {
    const response = await server.handle('create', 'pods', { namespace: 'default', body: pod('a.b') });
    expect(response.kind === 'object' && response.warnings[0]).toContain(
      "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended",
    );
  });

  it('sets phase, label and finalizer of namespaces', async () => {
    const createdObject = await server.create('namespaces', { kind: 'Namespace', apiVersion: 'v1', metadata: { generateName: 'team-' } });
    expect(createdObject).toMatchObject({
      metadata: { labels: { 'kubernetes.io/metadata.name': createdObject.metadata?.name } },
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Active' },
    });
  });

  it('moves stringData of secrets to data', async () => {
    const createdObject = await server.create('secrets', {
      kind: 'Secret',
      apiVersion: 'v1',
      metadata: { name: 's' },
      ...{ stringData: { user: 'bob' }, data: { pass: 'eA==' } },
    });
    expect(createdObject).toMatchObject({ data: { user: 'Ym9i', pass: 'eA==' }, type: 'Opaque' });
    expect(createdObject).not.toHaveProperty('stringData');
    expect((await server.list('secrets', { fieldSelector: 'type=Opaque' })).names).toEqual(['s']);
  });

  it('drops the status of workloads and sets their generation', async () => {
    const template = { metadata: { labels: { app: 'x' } }, spec: { containers: [{ name: 'main', image: 'i' }] } };
    const createdObject = await server.create('deployments.apps', {
      kind: 'Deployment',
      apiVersion: 'apps/v1',
      metadata: { name: 'd' },
      ...{ spec: { selector: { matchLabels: { app: 'x' } }, template }, status: { replicas: 9 } },
    });
    expect(createdObject).toMatchObject({ metadata: { generation: 1 }, spec: { replicas: 1, progressDeadlineSeconds: 600 }, status: {} });
    expect((createdObject as { status?: object }).status).toEqual({});
  });

  it('sets the selector of jobs by uid', async () => {
    const createdObject = await server.create('jobs.batch', {
      kind: 'Job',
      apiVersion: 'batch/v1',
      metadata: { name: 'j' },
      ...{ spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'i' }] } } } },
    });
    const uid = createdObject.metadata?.uid;
    expect(createdObject).toMatchObject({
      spec: {
        selector: { matchLabels: { 'batch.kubernetes.io/controller-uid': uid } },
        template: { metadata: { labels: { 'controller-uid': uid, 'job-name': 'j', 'batch.kubernetes.io/job-name': 'j' } } },
      },
    });
  });

  it('keeps the status of nodes, and sets the requester of certificate requests', async () => {
    expect(
      await server.create('nodes', { kind: 'Node', apiVersion: 'v1', metadata: { name: 'n' }, ...{ status: { capacity: { cpu: '4' } } } }),
    ).toMatchObject({ status: { capacity: { cpu: '4' }, allocatable: { cpu: '4' } } });
    const csr = await server.create('certificatesigningrequests.certificates.k8s.io', {
      kind: 'CertificateSigningRequest',
      apiVersion: 'certificates.k8s.io/v1',
      metadata: { name: 'c' },
      ...{
        spec: {
          request: certificateRequest,
          signerName: 'example.com/x',
          usages: ['client auth'],
          username: 'someone-else',
        },
      },
    });
    expect(csr).toMatchObject({ spec: { username: 'admin', groups: ['system:masters', 'system:authenticated'] } });
  });

  it('supports every kind with storage verbs', async () => {
    const served = server.pipeline.servedKinds().filter(({ verbs }) => verbs.includes('create') && verbs.includes('list'));
    expect(served.length).toBeGreaterThan(55);
    for (const kind of served) {
      const { items } = await server.list({
        group: kind.group,
        version: kind.version,
        resource: kind.resource,
        kind: kind.kind,
        namespaced: kind.namespaced,
      });
      expect(items).toEqual([]);
    }
    const storageClass = await server.create('storageclasses.storage.k8s.io', {
      kind: 'StorageClass',
      apiVersion: 'storage.k8s.io/v1',
      metadata: { name: 'fast' },
      ...{ provisioner: 'example.com/disk' },
    });
    expect(await server.get('storageclasses.storage.k8s.io', 'fast')).toEqual(storageClass);
  });
});
