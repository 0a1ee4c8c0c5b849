import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configMap, pod, refusal, TestServer } from '../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

describe('create', () => {
  it('says who and how old the object is, and takes no word for it', async () => {
    const made = await server.create(
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
    expect(made.metadata).toEqual({
      name: 'a',
      namespace: 'default',
      uid: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4/),
      creationTimestamp: '2026-01-01T00:00:00Z',
      resourceVersion: '1',
    });
  });

  it('answers 201 with the object at its revision', async () => {
    const response = await server.handle('create', 'configmaps', { namespace: 'default', body: configMap('a') });
    expect(response).toMatchObject({ kind: 'object', code: 201, item: { revision: 1 } });
  });

  it('refuses a name that is taken, and says when its owner is going', async () => {
    await server.create('configmaps', configMap('a'));
    expect((await refusal(server.create('configmaps', configMap('a')))).status).toMatchObject({
      code: 409,
      reason: 'AlreadyExists',
      message: 'configmaps "a" already exists',
      details: { name: 'a', kind: 'configmaps' },
    });
    await server.create('configmaps', configMap('b', {}, { finalizers: ['example.com/hold'] }));
    await server.remove('configmaps', 'b');
    expect((await refusal(server.create('configmaps', configMap('b')))).message).toBe(
      'object is being deleted: configmaps "b" already exists',
    );
  });

  it("makes names of upstream's alphabet, at most 63 characters long", async () => {
    const made = await server.create('configmaps', configMap('', {}, { generateName: 'web-' }));
    expect(made.metadata?.name).toMatch(/^web-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    expect(made.metadata?.generateName).toBe('web-');
    const long = await server.create('configmaps', configMap('', {}, { generateName: 'x'.repeat(80) }));
    expect(long.metadata?.name).toHaveLength(63);
  });

  it('tries other names before it gives up on making one', async () => {
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
    expect((await refusal(stuck.create('configmaps', configMap('', {}, { generateName: 'a-' })))).status).toMatchObject({
      reason: 'AlreadyExists',
      message: 'configmaps "a-bbbbb" already exists, the server was not able to generate a unique name for the object',
      details: { retryAfterSeconds: 1 },
    });
    await stuck.stop();
  });

  it('holds the object to the request', async () => {
    const message = async (body: unknown, options: object = {}) =>
      (await refusal(server.create('configmaps', body as never, { namespace: 'default', ...options }))).message;
    expect(await message(configMap('a', {}, { namespace: 'other' }))).toBe(
      'the namespace of the provided object does not match the namespace sent on the request',
    );
    expect(await message(configMap('a'), { namespace: '' })).toBe('an empty namespace may not be set during creation');
    expect(await message(configMap('a', {}, { resourceVersion: '5' }))).toBe('resourceVersion should not be set on objects to be created');
    expect(await message({ kind: 'Secret', apiVersion: 'v1', metadata: { name: 'a' } })).toBe(
      'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (v1.ConfigMap): unknown conversion',
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

  it("validates with upstream's words and causes", async () => {
    const error = await refusal(server.create('configmaps', configMap('Bad_Name')));
    expect(error.status).toMatchObject({
      code: 422,
      reason: 'Invalid',
      details: { kind: 'ConfigMap', name: 'Bad_Name', causes: [{ reason: 'FieldValueInvalid', field: 'metadata.name' }] },
    });
    expect(error.message).toMatch(
      /^ConfigMap "Bad_Name" is invalid: metadata\.name: Invalid value: "Bad_Name": a lowercase RFC 1123 subdomain/,
    );
    expect((await refusal(server.create('configmaps', configMap('')))).message).toBe(
      'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
    );
    expect((await refusal(server.create('pods', pod('a', { containers: [] })))).message).toBe(
      'Pod "a" is invalid: spec.containers: Required value',
    );
    expect((await server.list('configmaps')).names).toEqual([]);
  });

  it('drops what the schema does not know, and keeps its hands off what it was given', async () => {
    const body = { ...configMap('a'), nonsense: 1, data: { x: 'y' } };
    const made = await server.create('configmaps', body);
    expect(made).not.toHaveProperty('nonsense');
    expect(Object.isFrozen(body)).toBe(false);
  });

  it('only pretends to in a dry run', async () => {
    const query = { dryRun: 'All' };
    const made = await server.create('configmaps', configMap('a'), { query });
    expect(made.metadata).toMatchObject({ name: 'a', uid: expect.any(String) as string });
    expect((await server.list('configmaps')).names).toEqual([]);
    await server.create('configmaps', configMap('a'));
    expect((await refusal(server.create('configmaps', configMap('a'), { query }))).reason).toBe('AlreadyExists');
    expect((await refusal(server.create('configmaps', configMap('B'), { query }))).reason).toBe('Invalid');
  });
});

describe('what kinds are made of', () => {
  it('pods begin pending, in the right class of service', async () => {
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

  it('pods are placed by their own labels where their terms say so', async () => {
    const made = await server.create(
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
    expect(made).toMatchObject({
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

  it('pods with a name that is no host name come with a warning', async () => {
    const response = await server.handle('create', 'pods', { namespace: 'default', body: pod('a.b') });
    expect(response.kind === 'object' && response.warnings[0]).toContain(
      "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended",
    );
  });

  it('namespaces are active, labelled and held by their content', async () => {
    const made = await server.create('namespaces', { kind: 'Namespace', apiVersion: 'v1', metadata: { generateName: 'team-' } });
    expect(made).toMatchObject({
      metadata: { labels: { 'kubernetes.io/metadata.name': made.metadata?.name } },
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Active' },
    });
  });

  it('secrets keep their text as data', async () => {
    const made = await server.create('secrets', {
      kind: 'Secret',
      apiVersion: 'v1',
      metadata: { name: 's' },
      ...{ stringData: { user: 'bob' }, data: { pass: 'eA==' } },
    });
    expect(made).toMatchObject({ data: { user: 'Ym9i', pass: 'eA==' }, type: 'Opaque' });
    expect(made).not.toHaveProperty('stringData');
    expect((await server.list('secrets', { fieldSelector: 'type=Opaque' })).names).toEqual(['s']);
  });

  it('workloads have no status yet and count their generations', async () => {
    const template = { metadata: { labels: { app: 'x' } }, spec: { containers: [{ name: 'main', image: 'i' }] } };
    const made = await server.create('deployments.apps', {
      kind: 'Deployment',
      apiVersion: 'apps/v1',
      metadata: { name: 'd' },
      ...{ spec: { selector: { matchLabels: { app: 'x' } }, template }, status: { replicas: 9 } },
    });
    expect(made).toMatchObject({ metadata: { generation: 1 }, spec: { replicas: 1, progressDeadlineSeconds: 600 }, status: {} });
    expect((made as { status?: object }).status).toEqual({});
  });

  it('jobs select their pods by uid', async () => {
    const made = await server.create('jobs.batch', {
      kind: 'Job',
      apiVersion: 'batch/v1',
      metadata: { name: 'j' },
      ...{ spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'i' }] } } } },
    });
    const uid = made.metadata?.uid;
    expect(made).toMatchObject({
      spec: {
        selector: { matchLabels: { 'batch.kubernetes.io/controller-uid': uid } },
        template: { metadata: { labels: { 'controller-uid': uid, 'job-name': 'j', 'batch.kubernetes.io/job-name': 'j' } } },
      },
    });
  });

  it('nodes bring their status; certificate requests are signed with who asks', async () => {
    expect(
      await server.create('nodes', { kind: 'Node', apiVersion: 'v1', metadata: { name: 'n' }, ...{ status: { capacity: { cpu: '4' } } } }),
    ).toMatchObject({ status: { capacity: { cpu: '4' }, allocatable: { cpu: '4' } } });
    const csr = await server.create('certificatesigningrequests.certificates.k8s.io', {
      kind: 'CertificateSigningRequest',
      apiVersion: 'certificates.k8s.io/v1',
      metadata: { name: 'c' },
      ...{
        spec: {
          request: Buffer.from('-----BEGIN CERTIFICATE REQUEST-----').toString('base64'),
          signerName: 'example.com/x',
          usages: ['client auth'],
          username: 'somebody else',
        },
      },
    });
    expect(csr).toMatchObject({ spec: { username: 'admin', groups: ['system:masters', 'system:authenticated'] } });
  });

  it('everything that has storage verbs can be made and found', async () => {
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
