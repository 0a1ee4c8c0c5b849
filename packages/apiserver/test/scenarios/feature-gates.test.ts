import { FeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import { kinds } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { horizontalPodAutoscalers, pods, services } from '@oarlock/api/resources';
import type { HorizontalPodAutoscaler } from '@oarlock/api/types/autoscaling-v2';
import type { Pod, Service } from '@oarlock/api/types/core-v1';
import { describe, expect, it } from 'vitest';
import { requestHeaders } from '../../src/aggregation/request-header.ts';
import { discoveryDocuments } from '../../src/endpoints/discovery/discovery.ts';
import { zPagePaths } from '../../src/handler-chain/zpages.ts';
import { kindsOfVersion } from '../../src/pipeline/introduced-versions.ts';
import { configMap, encoded } from '../support/fake-pipeline.ts';
import { TestServer } from '../support/pipeline-fixture.ts';
import { startServer } from '../support/start-server.ts';

const start = (featureGates: Readonly<Record<string, boolean>>) => TestServer.start({ facts: { featureGates } });
const image = 'registry.example/app:1';
const env = [{ name: 'A', valueFrom: { fileKeyRef: { volumeName: 'v', path: 'a.env', key: 'A' } } }];
/** A pod with the fields of gates that are on by default. */
const podSpec = {
  hostnameOverride: 'db-1',
  resources: { requests: { cpu: '1' } },
  topologySpreadConstraints: [
    { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway', labelSelector: {}, matchLabelKeys: ['app'] },
  ],
  volumes: [{ name: 'v', emptyDir: {} }],
  initContainers: [{ name: 'sidecar', image, restartPolicy: 'Always' }],
  containers: [
    {
      name: 'main',
      image,
      restartPolicy: 'Never',
      restartPolicyRules: [{ action: 'Restart', exitCodes: { operator: 'In', values: [42] } }],
    },
  ],
} as const;
const pod = (name: string): Pod => ({ metadata: { name, namespace: 'default', labels: { app: 'a' } }, spec: podSpec });

describe('fields of disabled features', () => {
  it('are kept while the gates are on', async () => {
    const server = await start({});
    const created = (await server.create(pods, pod('a'))) as Pod;
    expect(created.spec).toMatchObject(podSpec);
    await server.stop();
  });

  it.each([
    ['HostnameOverride', 'hostnameOverride'],
    ['PodLevelResources', '"requests"'],
    ['MatchLabelKeysInPodTopologySpread', 'matchLabelKeys'],
    ['ContainerRestartRules', 'restartPolicyRules'],
  ])('%s: %s is dropped from pods and pod templates', async (gate, field) => {
    const server = await start({ [gate]: false });
    const created = (await server.create(pods, pod('a'))) as Pod;
    const template = await server.create('podtemplates', {
      metadata: { name: 't', namespace: 'default' },
      template: { metadata: { labels: { app: 'a' } }, spec: podSpec },
    } as never);
    const withoutManagers = (object: KubeObject) => JSON.stringify({ ...object, metadata: undefined });
    for (const object of [created, template]) expect(withoutManagers(object)).not.toContain(field);
    expect(created.spec?.initContainers?.[0]?.restartPolicy).toBe('Always');
    expect(created.spec?.containers[0]?.restartPolicy).toBe(gate === 'ContainerRestartRules' ? undefined : 'Never');
    await server.stop();
  });

  it('EnvFiles: an environment variable without its source is invalid', async () => {
    const server = await start({ EnvFiles: false });
    const wanted: Pod = { ...pod('a'), spec: { volumes: [...podSpec.volumes], containers: [{ name: 'main', image, env }] } };
    await expect(server.create(pods, wanted)).rejects.toThrow('spec.containers[0].env[0].valueFrom: Invalid value');
    await server.stop();
  });

  it('HPAConfigurableTolerance: the tolerance is dropped on create, and kept on update if the stored object has one', async () => {
    const autoscaler = (name: string): HorizontalPodAutoscaler => ({
      metadata: { name, namespace: 'default' },
      spec: {
        scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'd' },
        maxReplicas: 3,
        behavior: { scaleUp: { tolerance: '0.05', policies: [{ type: 'Pods', value: 1, periodSeconds: 60 }] } },
      },
    });
    const on = await start({});
    await on.create(horizontalPodAutoscalers, autoscaler('a'));
    const off = await TestServer.start({ storage: on.storage, facts: { featureGates: { HPAConfigurableTolerance: false } } });
    const created = (await off.create(horizontalPodAutoscalers, autoscaler('b'))) as HorizontalPodAutoscaler;
    expect(created.spec?.behavior?.scaleUp?.tolerance).toBeUndefined();
    const updated = (await off.update(horizontalPodAutoscalers, autoscaler('a'))) as HorizontalPodAutoscaler;
    expect(updated.spec?.behavior?.scaleUp?.tolerance).toBe('50m');
    await off.stop();
    await on.stop();
  });
});

it.each([
  [true, 'created'],
  [false, 'a DNS-1035 label must consist of'],
])('RelaxedServiceNameValidation=%s: a name that begins with a digit is %s', async (value, outcome) => {
  const service: Service = { metadata: { name: '1a', namespace: 'default' }, spec: { ports: [{ port: 80 }] } };
  const server = await start({ RelaxedServiceNameValidation: value });
  const creation = server.create(services, service).then(() => 'created', String);
  expect(await creation).toContain(outcome);
  await server.stop();
});

it.each([true, false])('StorageVersionHash=%s: discovery has hashes or not', (storageVersionHash) => {
  const documents = discoveryDocuments({ served: kinds, serverAddress: 'a:1', storageVersionHash });
  expect(JSON.stringify(documents.get('/api/v1')).includes('storageVersionHash')).toBe(storageVersionHash);
});

it.each([
  [true, 'gzip'],
  [false, undefined],
])('APIResponseCompression=%s: a large list has the encoding %s', async (compresses, encoding) => {
  const server = await startServer({ compresses });
  server.pipeline.list([encoded(configMap('huge', { data: { text: 'y'.repeat(900_000) } }))]);
  const { headers } = await server.http2('GET', '/api/v1/namespaces/default/configmaps', { headers: { 'accept-encoding': 'gzip' } });
  expect(headers['content-encoding']).toBe(encoding);
  await server.stop();
});

it('ComponentFlagz and ComponentStatusz select the z-pages', () => {
  const off = (gate: string) => zPagePaths(new FeatureGates({ featureGates: { [gate]: false } }));
  expect(zPagePaths(new FeatureGates())).toEqual(['/flagz', '/statusz']);
  expect(off('ComponentFlagz')).toEqual(['/statusz']);
  expect(off('ComponentStatusz')).toEqual(['/flagz']);
  expect(zPagePaths(new FeatureGates({ emulationVersion: '1.35' }))).toEqual([]);
});

it.each([
  [true, 'u1'],
  [false, undefined],
])('RemoteRequestHeaderUID=%s: a proxied request has the UID %s, and never that of the client', (sendsUid, uid) => {
  const headers = requestHeaders({ 'x-remote-uid': 'forged' }, { name: 'ada', groups: [], uid: 'u1' }, { sendsUid });
  expect(headers['x-remote-uid']).toBe(uid);
});

describe('an emulated version', () => {
  const servedAt = (version: string, group: string, apiVersion: string, resource: string) =>
    kinds.some(
      (kind) => kind.group === group && kind.version === apiVersion && kind.resource === resource && kindsOfVersion(version)(kind),
    );

  it.each([
    ['admissionregistration.k8s.io', 'v1', 'mutatingadmissionpolicies', '1.36'],
    ['storagemigration.k8s.io', 'v1beta1', 'storageversionmigrations', '1.35'],
    ['resource.k8s.io', 'v1', 'resourceclaims', '1.34'],
    ['storage.k8s.io', 'v1', 'volumeattributesclasses', '1.34'],
    ['networking.k8s.io', 'v1', 'servicecidrs', '1.33'],
  ])('%s/%s %s is served since %s', (group, apiVersion, resource, since) => {
    for (const version of ['1.33', '1.34', '1.35', '1.36'])
      expect([version, servedAt(version, group, apiVersion, resource)]).toEqual([version, version >= since]);
  });

  it('is not served also if the runtime configuration enables the version', async () => {
    const server = await TestServer.start({ facts: { emulationVersion: '1.35' }, runtimeConfig: { 'api/all': true } });
    const served = server.pipeline.servedKinds().map(({ group, version, resource }) => `${group}/${version}/${resource}`);
    expect(served).not.toContain('admissionregistration.k8s.io/v1/mutatingadmissionpolicies');
    expect(served).toContain('admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies');
    expect(served).not.toContain('scheduling.k8s.io/v1alpha2/workloads');
    await server.stop();
  });
});
