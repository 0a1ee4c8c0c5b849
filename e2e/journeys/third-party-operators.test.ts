import { beforeAll, describe, expect, it } from 'vitest';
import type { Api, Item } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { Machine } from '../harness/machine.ts';
import { TokenClient } from '../harness/token-client.ts';
import { until, untilValue } from '../harness/until.ts';

type Fields = Readonly<Record<string, unknown>>;

const machine = Machine.use();
let cluster: Cluster;
let api: Api;
beforeAll(async () => {
  const spec = { roles: ['apiserver', 'controllers'], storage: 'storage-memory', server: { address: '127.0.0.1' } };
  cluster = await machine.cluster({ spec });
  ({ api } = cluster);
});

/** The resources that kube-state-metrics reads by default, by group version. */
const stateMetrics: Readonly<Record<string, readonly string[]>> = {
  'api/v1': [
    'configmaps',
    'endpoints',
    'limitranges',
    'namespaces',
    'nodes',
    'persistentvolumeclaims',
    'persistentvolumes',
    'pods',
    'replicationcontrollers',
    'resourcequotas',
    'secrets',
    'services',
  ],
  'apis/admissionregistration.k8s.io/v1': ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'],
  'apis/apps/v1': ['daemonsets', 'deployments', 'replicasets', 'statefulsets'],
  'apis/autoscaling/v2': ['horizontalpodautoscalers'],
  'apis/batch/v1': ['cronjobs', 'jobs'],
  'apis/certificates.k8s.io/v1': ['certificatesigningrequests'],
  'apis/coordination.k8s.io/v1': ['leases'],
  'apis/networking.k8s.io/v1': ['ingresses', 'networkpolicies'],
  'apis/policy/v1': ['poddisruptionbudgets'],
  'apis/storage.k8s.io/v1': ['storageclasses', 'volumeattachments'],
};
const listed = Object.entries(stateMetrics).flatMap(([version, resources]) => resources.map((resource) => [version, resource] as const));

describe('kube-state-metrics', () => {
  let client: TokenClient;
  beforeAll(async () => {
    const { kubectl } = cluster;
    await kubectl.run(['create', 'serviceaccount', 'kube-state-metrics', '-n', 'kube-system']);
    const rules = Object.entries(stateMetrics).map(([version, resources]) => ({
      apiGroups: [version === 'api/v1' ? '' : (version.split('/')[1] ?? '')],
      resources,
      verbs: ['list', 'watch'],
    }));
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'kube-state-metrics' };
    await kubectl.apply([
      { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'kube-state-metrics' }, rules },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        metadata: { name: 'kube-state-metrics' },
        roleRef,
        subjects: [{ kind: 'ServiceAccount', name: 'kube-state-metrics', namespace: 'kube-system' }],
      },
    ]);
    const token = (await kubectl.run(['create', 'token', 'kube-state-metrics', '-n', 'kube-system'])).trim();
    client = new TokenClient({ server: api.server, ca: api.tls.ca, token });
    await until('the role is effective', async () => (await client.call('GET', '/api/v1/pods?limit=1')).status === 200);
  });

  it.concurrent.each(listed)('lists and watches %s/%s with its role, and nothing more', async (version, resource) => {
    const path = `/${version}/${resource}`;
    const accept = 'application/vnd.kubernetes.protobuf,application/json';
    const list = await client.call('GET', `${path}?limit=500&resourceVersion=0`, { headers: { accept } });
    expect([list.status, list.headers['content-type']]).toEqual([200, 'application/vnd.kubernetes.protobuf']);
    const { metadata } = await client.json<{ readonly metadata: { readonly resourceVersion: string } }>('GET', `${path}?limit=500`);
    const query = `watch=true&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion=${metadata.resourceVersion}`;
    expect((await client.call('GET', `${path}?${query}`, { headers: { accept } })).status).toBe(200);
    expect((await client.call('GET', `${path}/any`)).status).toBe(403);
    expect((await client.call('DELETE', path)).status).toBe(403);
  });
});

const conditions = {
  type: 'array',
  items: {
    type: 'object',
    required: ['status', 'type'],
    properties: {
      lastTransitionTime: { type: 'string', format: 'date-time' },
      message: { type: 'string' },
      observedGeneration: { type: 'integer', format: 'int64' },
      reason: { type: 'string' },
      status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
      type: { type: 'string' },
    },
  },
  'x-kubernetes-list-map-keys': ['type'],
  'x-kubernetes-list-type': 'map',
};

interface Sketch {
  readonly group: string;
  readonly kind: string;
  readonly plural: string;
  readonly spec: Fields;
  readonly status?: Fields;
  readonly more?: Fields;
}

/** Creates a definition in the shape that controller-gen writes, and waits until it is established. */
async function define({ group, kind, plural, spec, status = {}, more = {} }: Sketch): Promise<string> {
  const properties = {
    apiVersion: { type: 'string' },
    kind: { type: 'string' },
    metadata: { type: 'object' },
    spec,
    status: { type: 'object', properties: { conditions, ...status } },
  };
  const names = { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase(), categories: [group.split('.')[0]] };
  const schema = { openAPIV3Schema: { type: 'object', required: ['spec'], properties } };
  const version = { name: 'v1', served: true, storage: true, schema, subresources: { status: {} }, ...more };
  const name = `${plural}.${group}`;
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  const body = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name, annotations: { 'controller-gen.kubebuilder.io/version': 'v0.17.2' } },
    spec: { group, names, scope: 'Namespaced', versions: [version] },
  };
  await api.json('PATCH', `${path}/${name}?fieldManager=helm`, { headers: { 'content-type': 'application/apply-patch+yaml' }, body });
  type Definition = Item & { readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] } };
  await api.until<Definition>(`${name} is established`, `${path}?fieldSelector=metadata.name%3D${name}`, ([one]) =>
    (one?.status?.conditions ?? []).some(({ type, status: value }) => type === 'Established' && value === 'True'),
  );
  return `/apis/${group}/v1/namespaces/default/${plural}`;
}
const merge = { 'content-type': 'application/merge-patch+json' };

describe('cert-manager', () => {
  it('issues a Certificate: conditions, owned requests and Secrets, and their collection', async () => {
    const issuerRef = {
      type: 'object',
      required: ['name'],
      properties: { name: { type: 'string' }, kind: { type: 'string' }, group: { type: 'string' } },
    };
    const columns = [
      { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type == "Ready")].status' },
      { name: 'Secret', type: 'string', jsonPath: '.spec.secretName' },
      { name: 'Issuer', type: 'string', jsonPath: '.spec.issuerRef.name', priority: 1 },
      { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    ];
    const secretName = { type: 'string' };
    const dnsNames = { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'atomic' };
    const certificates = await define({
      group: 'cert-manager.io',
      kind: 'Certificate',
      plural: 'certificates',
      spec: {
        type: 'object',
        required: ['issuerRef', 'secretName'],
        properties: { issuerRef, secretName, dnsNames, duration: { type: 'string' } },
      },
      status: { notAfter: { type: 'string', format: 'date-time' }, revision: { type: 'integer' } },
      more: { additionalPrinterColumns: columns, selectableFields: [{ jsonPath: '.spec.issuerRef.name' }] },
    });
    const requests = await define({
      group: 'cert-manager.io',
      kind: 'CertificateRequest',
      plural: 'certificaterequests',
      spec: { type: 'object', required: ['request'], properties: { request: { type: 'string', format: 'byte' }, issuerRef } },
      status: { certificate: { type: 'string', format: 'byte' } },
    });
    const spec = { secretName: 'web-tls', issuerRef: { name: 'ca', kind: 'Issuer' }, dnsNames: ['web.example.com'] };
    const certificate = await api.json<Item>('POST', certificates, {
      body: { apiVersion: 'cert-manager.io/v1', kind: 'Certificate', metadata: { name: 'web' }, spec },
    });
    const owner = {
      apiVersion: 'cert-manager.io/v1',
      kind: 'Certificate',
      name: 'web',
      uid: certificate.metadata.uid,
      controller: true,
      blockOwnerDeletion: true,
    };
    const owned = (name: string) => ({ name, ownerReferences: [owner] });
    await api.json('POST', requests, {
      body: { apiVersion: 'cert-manager.io/v1', kind: 'CertificateRequest', metadata: owned('web-1'), spec: { request: 'AA==' } },
    });
    const lastTransitionTime = '2026-01-01T00:00:00Z';
    const ready = { type: 'Ready', status: 'True', reason: 'Ready', message: 'issued', observedGeneration: 1, lastTransitionTime };
    // cert-manager applies statuses, each of its controllers with a field manager of its own
    for (const [manager, condition] of [
      ['issuing', { ...ready, type: 'Issuing', status: 'False' }],
      ['readiness', ready],
    ] as const)
      await api.json('PATCH', `${certificates}/web/status?fieldManager=cert-manager-certificates-${manager}&force=true`, {
        headers: { 'content-type': 'application/apply-patch+yaml' },
        body: { apiVersion: 'cert-manager.io/v1', kind: 'Certificate', metadata: { name: 'web' }, status: { conditions: [condition] } },
      });
    expect(await cluster.kubectl.run(['get', 'certificates', '-o', 'wide'])).toMatch(
      /^NAME +READY +SECRET +ISSUER +AGE\nweb +True +web-tls +ca +\d+s\n/,
    );
    const selected = await api.get<{ readonly items: readonly Item[] }>(`${certificates}?fieldSelector=spec.issuerRef.name%3Dca`);
    expect(selected.items).toHaveLength(1);
    // no generation for a status, one for a spec
    expect(await api.json('PATCH', `${certificates}/web`, { headers: merge, body: { spec: { duration: '24h' } } })).toMatchObject({
      metadata: { generation: 2 },
      status: { conditions: [{ type: 'Issuing' }, { type: 'Ready' }] },
    });
    await api.json('DELETE', `${certificates}/web?propagationPolicy=Foreground`);
    await api.until('the request is collected', requests, (all) => all.length === 0);
    await api.until('the certificate is gone', certificates, (all) => all.length === 0);
  });
});

describe('Argo CD', () => {
  it('keeps an Application until its finalizer is removed, and accepts any value of a parameter', async () => {
    const source = {
      type: 'object',
      required: ['repoURL'],
      properties: {
        repoURL: { type: 'string' },
        helm: { type: 'object', properties: { valuesObject: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } } },
      },
    };
    const applications = await define({
      group: 'argoproj.io',
      kind: 'Application',
      plural: 'applications',
      spec: { type: 'object', required: ['project'], properties: { project: { type: 'string' }, source } },
      // Argo CD writes its status with the object: it has no subresource
      more: { subresources: {}, additionalPrinterColumns: [{ name: 'Sync Status', type: 'string', jsonPath: '.status.sync.status' }] },
      status: {
        sync: { type: 'object', properties: { status: { type: 'string' } } },
        operationState: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      },
    });
    const valuesObject = { replicas: 2, deep: { list: [1, 'two', null, { three: 3.5 }] } };
    const metadata = { name: 'guestbook', finalizers: ['resources-finalizer.argocd.argoproj.io'] };
    const body = {
      apiVersion: 'argoproj.io/v1',
      kind: 'Application',
      metadata,
      spec: { project: 'default', source: { repoURL: 'https://example.com', helm: { valuesObject } } },
    };
    const created = await api.json<Item & { readonly spec: unknown }>('POST', applications, { body });
    expect(created.spec).toEqual(body.spec);
    const status = { sync: { status: 'Synced' }, operationState: { phase: 'Succeeded', any: [1] } };
    const patched = await api.json('PATCH', `${applications}/guestbook`, { headers: merge, body: { status } });
    // without a status subresource a status counts as a change of the object
    expect(patched).toMatchObject({ status, metadata: { generation: 2 } });
    expect(await cluster.kubectl.run(['get', 'applications'])).toMatch(/^NAME +SYNC STATUS\nguestbook +Synced\n/);
    await api.json('DELETE', `${applications}/guestbook`);
    expect((await api.get<Item>(`${applications}/guestbook`)).metadata.deletionTimestamp).toBeDefined();
    const added = await api.call('PATCH', `${applications}/guestbook`, {
      headers: merge,
      body: { metadata: { finalizers: ['example.com/late'] } },
    });
    expect(added.status).toBe(422);
    await api.json('PATCH', `${applications}/guestbook`, { headers: merge, body: { metadata: { finalizers: null } } });
    expect((await api.call('GET', `${applications}/guestbook`)).status).toBe(404);
  });
});

describe('prometheus-operator', () => {
  it('scales a Prometheus through its subresource, and validates by CEL and patterns', async () => {
    const replicas = { type: 'integer', format: 'int32' };
    const retention = {
      type: 'string',
      pattern: '^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$',
    };
    const quantity = { anyOf: [{ type: 'integer' }, { type: 'string' }], 'x-kubernetes-int-or-string': true };
    const prometheuses = await define({
      group: 'monitoring.coreos.com',
      kind: 'Prometheus',
      plural: 'prometheuses',
      spec: {
        type: 'object',
        properties: {
          replicas,
          retention,
          requests: { type: 'object', additionalProperties: quantity },
          tsdb: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
        },
        'x-kubernetes-validations': [{ rule: '!has(self.replicas) || self.replicas <= 5', message: 'at most five replicas' }],
      },
      status: { replicas, selector: { type: 'string' } },
      more: {
        subresources: {
          status: {},
          scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas', labelSelectorPath: '.status.selector' },
        },
      },
    });
    const prometheus = (spec: Fields) => ({ apiVersion: 'monitoring.coreos.com/v1', kind: 'Prometheus', metadata: { name: 'main' }, spec });
    const rejected = await api.call('POST', prometheuses, { body: prometheus({ replicas: 6, retention: 'ten days' }) });
    expect(rejected.status).toBe(422);
    expect(rejected.body).toContain('spec.retention in body should match');
    expect((await api.call('POST', prometheuses, { body: prometheus({ replicas: 6 }) })).body).toContain('at most five replicas');
    await api.json('POST', prometheuses, { body: prometheus({ replicas: 1, retention: '10d', requests: { cpu: 1, memory: '2Gi' } }) });
    await api.json('PATCH', `${prometheuses}/main/status`, {
      headers: merge,
      body: { status: { replicas: 1, selector: 'app=prometheus' } },
    });
    await cluster.kubectl.run(['scale', 'prometheus/main', '--replicas=3']);
    expect(await api.get(`${prometheuses}/main/scale`)).toMatchObject({
      kind: 'Scale',
      spec: { replicas: 3 },
      status: { replicas: 1, selector: 'app=prometheus' },
    });
    expect((await cluster.kubectl.try(['scale', 'prometheus/main', '--replicas=9'])).stderr).toContain('at most five replicas');
    // the OpenAPI documents include the kind shortly after it is established
    await untilValue(
      'the field is explained',
      () => cluster.kubectl.run(['explain', 'prometheus.spec.retention']),
      (output) => output.includes('FIELD: retention <string>'),
    );
  });
});
