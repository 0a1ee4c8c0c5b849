import { configMaps, services } from '@oarlock/api/resources';
import { failure } from '@oarlock/api/status';
import { configurationMap, parseConfiguration, type ClusterConfiguration } from '@oarlock/cluster/configuration/cluster-configuration';
import { publishClusterConfiguration } from '@oarlock/cluster/configuration/configuration-publisher';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { beforeEach, describe, expect, it } from 'vitest';

const configuration: ClusterConfiguration = {
  name: 'test',
  domain: 'cluster.local',
  podCIDRs: ['10.244.0.0/16'],
  serviceCIDRs: ['10.96.0.0/16'],
  nodePorts: '30000-32767',
  dnsServiceIP: '10.96.0.10',
  components: { volumes: [] },
};
const { key, ...location } = configurationMap;

describe('publisher of the cluster configuration', () => {
  let clock: FakeClock;
  let api: ReturnType<typeof memoryApi>;
  beforeEach(() => {
    clock = new FakeClock();
    api = memoryApi({ clock });
  });
  const publish = (published: ClusterConfiguration, log: Logger = silentLogger) =>
    publishClusterConfiguration({ client: api.client(), configuration: published, clock, log });
  const stored = () => parseConfiguration(api.object(configMaps, location)?.data?.[key]);
  const dnsService = () => api.object(services, { namespace: 'kube-system', name: 'kube-dns' });

  it('creates the ConfigMap, and no DNS Service without a DNS plugin', async () => {
    const stop = publish(configuration);
    await clock.settle();
    expect(stored()).toEqual(configuration);
    expect(dnsService()).toBeUndefined();
    await stop();
  });

  it('creates the Service of the cluster DNS', async () => {
    const stop = publish({ ...configuration, components: { dns: 'dns-server', volumes: [] } });
    await clock.settle();
    expect(dnsService()?.spec?.clusterIP).toBe('10.96.0.10');
    await stop();
  });

  it('updates a changed configuration and logs the fields with both values', async () => {
    const stopFirst = publish(configuration);
    await clock.settle();
    await stopFirst();
    const changes: unknown[] = [];
    const log: Logger = { ...silentLogger, warn: (fields: object) => void changes.push((fields as { changes?: unknown }).changes) };
    const stop = publish({ ...configuration, domain: 'b.test' }, log);
    await clock.settle();
    expect(stored()?.domain).toBe('b.test');
    expect(changes).toEqual([['domain from cluster.local to b.test']]);
    await stop();
  });

  it('retries after a failure until it is stopped', async () => {
    api.failNext(({ resource }) => resource === configMaps, failure('ServiceUnavailable', 'down'), 3);
    const stop = publish(configuration);
    await clock.runUntil(() => stored() !== undefined, { within: 60_000 });
    await stop();
    api.failNext(({ resource }) => resource === configMaps, failure('ServiceUnavailable', 'down'), 100);
    const stopSecond = publish(configuration);
    await clock.settle();
    await stopSecond();
    expect(clock.pending).toBe(0);
  });
});
