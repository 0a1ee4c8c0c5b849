import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endpointSlices } from '@oarlock/api/resources';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { ServerList } from '@oarlock/client/http/server-list';
import { discoverServers, readDiscoveredServers, serversOf } from '@oarlock/cluster/process/server-discovery';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const slice = (...addresses: readonly string[]): EndpointSlice => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { namespace: 'default', name: 'kubernetes', labels: { 'kubernetes.io/service-name': 'kubernetes' } },
  addressType: 'IPv4',
  endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
  ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
});

describe('server discovery', () => {
  let dataDir: string;
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'oarlock-servers-'));
  });
  afterEach(() => rm(dataDir, { recursive: true, force: true }));

  it('follows the EndpointSlice of the Service kubernetes and keeps the servers in the data directory', async () => {
    const clock = new FakeClock();
    const api = memoryApi({ clock });
    const client = api.client();
    const servers = new ServerList(['https://10.0.0.1:6443'], { random: () => 0.999 });
    const informers = new SharedInformerFactory({ client, clock });
    const stop = discoverServers({ servers, informers, dataDir, log: silentLogger });
    informers.start();
    await client.create(endpointSlices, slice('10.0.0.1', '10.0.0.2'));
    await client.create(endpointSlices, { ...slice('10.9.9.9'), metadata: { namespace: 'default', name: 'other' } });
    await clock.runUntil(() => servers.servers.length === 2, { within: 60_000 });
    await client.patch(endpointSlices, { namespace: 'default', name: 'kubernetes' }, 'merge', { endpoints: slice('10.0.0.3').endpoints });
    await clock.runUntil(() => servers.servers.includes('https://10.0.0.3:6443'), { within: 60_000 });
    expect([...servers.servers].sort()).toEqual(['https://10.0.0.1:6443', 'https://10.0.0.3:6443']);
    await stop();
    await informers.stop();
    expect(await readDiscoveredServers(dataDir)).toEqual(['https://10.0.0.3:6443']);
    expect(JSON.parse(await readFile(join(dataDir, 'servers.json'), 'utf8'))).toEqual({ servers: ['https://10.0.0.3:6443'] });
  });

  it('ignores a missing or damaged file', async () => {
    expect(await readDiscoveredServers(dataDir)).toEqual([]);
    await writeFile(join(dataDir, 'servers.json'), '{');
    expect(await readDiscoveredServers(dataDir)).toEqual([]);
  });

  it('uses ready endpoints with the port named https', () => {
    const { endpoints = [] } = slice('10.0.0.1', '10.0.0.2');
    const [first, second] = endpoints ?? [];
    expect(
      serversOf({
        ...slice(),
        endpoints: [{ ...first, addresses: ['10.0.0.1'], conditions: { ready: false } }, second ?? { addresses: [] }],
      }),
    ).toEqual(['https://10.0.0.2:6443']);
    expect(serversOf({ ...slice('10.0.0.1'), ports: [] })).toEqual([]);
    expect(serversOf({ ...slice('fd00::1') })).toEqual(['https://[fd00::1]:6443']);
  });
});
