import { resource } from '@oarlock/api/resource';
import { configMaps, pods } from '@oarlock/api/resources';
import type { PodTemplate } from '@oarlock/api/types/core-v1';
import { eventually } from '@oarlock/testing/eventually';
import { startCluster } from '@oarlock/testing/start-cluster';
import { expect, it } from 'vitest';

const podTemplates = resource<PodTemplate>('', 'v1', 'podtemplates', 'PodTemplate', true);
const pod = { metadata: { name: 'a', namespace: 'default' }, spec: { hostnameOverride: 'other', containers: [{ name: 'c', image: 'i' }] } };

it('the gates of the cluster file reach the API, its metrics, its z-pages and the stored configuration', async () => {
  await using cluster = await startCluster({
    roles: ['apiserver'],
    spec: { featureGates: { HostnameOverride: false, ComponentStatusz: false, SidecarContainers: true } },
  });
  const { client } = cluster;
  const created: PodTemplate = await client.create(podTemplates, { metadata: pod.metadata, template: { spec: pod.spec } });
  expect(created.template?.spec).toMatchObject({ containers: [{ name: 'c' }] });
  expect(created.template?.spec?.hostnameOverride).toBeUndefined();
  const metrics = String(await client.raw('GET', '/metrics'));
  expect(metrics).toContain('kubernetes_feature_enabled{name="HostnameOverride",stage="BETA"} 0\n');
  expect(metrics).toContain('kubernetes_feature_enabled{name="SidecarContainers",stage=""} 1\n');
  expect(metrics).toContain('kubernetes_feature_enabled{name="GangScheduling",stage="ALPHA"} 0\n');
  await expect(client.raw('GET', '/statusz')).rejects.toThrow();
  expect(cluster.warnings).toContain('Setting GA feature gate SidecarContainers=true. It will be removed in a future release.');
  await eventually(cluster, configMaps, {
    namespace: 'kube-system',
    assert: (maps) => {
      const stored = maps.find(({ metadata }) => metadata?.name === 'oarlock-config');
      expect(stored?.data?.['ClusterConfiguration']).toContain('HostnameOverride: false');
    },
  });
});

it.each([
  ['1.33', '1.33'],
  ['1.35', '1.34'],
])('a cluster that emulates %s runs pods and serves the API of that version', async (emulationVersion, oldest) => {
  await using cluster = await startCluster({ nodes: 1, spec: { emulationVersion: emulationVersion as '1.33' } });
  const { client } = cluster;
  expect(await client.raw('GET', '/version')).toMatchObject({
    minor: '36',
    emulationMajor: '1',
    emulationMinor: emulationVersion.slice(2),
    minCompatibilityMinor: oldest.slice(2),
  });
  await expect(client.raw('GET', '/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies')).rejects.toThrow();
  await client.create(pods, pod);
  await eventually(cluster, pods, {
    timeoutMs: 120_000,
    assert: (all) => expect(all.map(({ status }) => status?.phase)).toEqual(['Running']),
  });
  const metrics = String(await client.raw('GET', '/metrics'));
  expect(metrics).not.toContain('StaleControllerConsistencyJob');
  expect(metrics).toContain(
    emulationVersion === '1.33'
      ? 'kubernetes_feature_enabled{name="PodTopologyLabelsAdmission",stage="ALPHA"} 0\n'
      : 'kubernetes_feature_enabled{name="PodTopologyLabelsAdmission",stage="BETA"} 1\n',
  );
});
