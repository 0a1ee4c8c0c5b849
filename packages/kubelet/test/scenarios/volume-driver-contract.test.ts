import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { configMaps, secrets } from '@oarlock/api/resources';
import type { Volume } from '@oarlock/api/types/core-v1';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { volumeContract, type VolumeFixture } from '@oarlock/spi/volume/contract';
import type { VolumeDriver } from '@oarlock/spi/volume';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { ObjectCache } from '../../src/api-objects/object-cache.ts';
import { EmptyDirDriver } from '../../src/volumes/internal/empty-dir.ts';
import { HostPathDriver } from '../../src/volumes/internal/host-path.ts';
import {
  ConfigMapDriver,
  DownwardApiDriver,
  ProjectedDriver,
  SecretDriver,
  type ObjectVolumeSources,
} from '../../src/volumes/internal/api-object-volumes.ts';
import { TrustBundleManager } from '../../src/api-objects/trust-bundle-manager.ts';
import { TokenManager } from '../../src/api-objects/token-manager.ts';

const root = process.getuid?.() === 0;
const needsRoot = root ? {} : { fsGroup: 'only root can give files away' };

volumeContract('emptyDir', async () => ({
  driver: new EmptyDirDriver(),
  reopen: async () => new EmptyDirDriver(),
  sample: (name) => ({ volume: { name, emptyDir: {} } }),
  broken: (name) => ({ volume: { name, emptyDir: { medium: 'HugePages' } } }),
  unsupported: { refreshing: 'it has no content of its own', ...needsRoot },
}));

volumeContract('emptyDir in memory', async () => ({
  driver: new EmptyDirDriver(),
  reopen: async () => new EmptyDirDriver(),
  sample: (name) => ({ volume: { name, emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } } }),
  broken: (name) => ({ volume: { name, emptyDir: { medium: 'HugePages' } } }),
  unsupported: { refreshing: 'it has no content of its own', ...needsRoot },
}));

volumeContract('hostPath', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'oarlock-host-'));
  return {
    driver: new HostPathDriver(),
    reopen: async () => new HostPathDriver(),
    dispose: () => rm(directory, { recursive: true, force: true }),
    sample: (name) => ({ volume: { name: name, hostPath: { path: join(directory, 'data'), type: 'DirectoryOrCreate' } } }),
    broken: (name) => ({ volume: { name, hostPath: { path: join(directory, 'none'), type: 'Directory' } } }),
    unsupported: {
      private: "it is the host's own directory",
      refreshing: 'it has no content of its own',
      fsGroup: "what is the host's is not given away",
      usage: "what is the host's is no volume's",
    },
  };
});

/** Creates drivers with an API in memory, in which `app` is a ConfigMap and a Secret. */
function overApi(
  make: (sources: ObjectVolumeSources) => VolumeDriver,
  source: Omit<Volume, 'name'>,
  files: (round: number) => Readonly<Record<string, string>>,
  broken?: Omit<Volume, 'name'>,
  unsupported: VolumeFixture['unsupported'] = {},
): () => Promise<VolumeFixture> {
  return async () => {
    const api = memoryApi({ clock: new FakeClock() });
    const client = api.client();
    let round = 0;
    const put = () => {
      round += 1;
      const data = { color: `blue ${round}`, ...(round % 2 === 0 && { even: `${round}` }) };
      api.seed(configMaps, { metadata: { name: 'app', namespace: 'default' }, data });
      api.seed(secrets, {
        metadata: { name: 'app', namespace: 'default' },
        data: Object.fromEntries(Object.entries(data).map(([key, text]) => [key, Buffer.from(text).toString('base64')])),
      });
    };
    put();
    const open = () =>
      make({
        objects: new ObjectCache({ client, clock: systemClock, random: () => 0.5, log: silentLogger }),
        tokens: new TokenManager(client, systemClock),
        trust: new TrustBundleManager(client, api.informers, new AbortController().signal),
        clock: systemClock,
        facts: () => ({ podIPs: [], hostIPs: [], nodeName: 'node-a' }),
        allocatable: () => ({}),
      });
    return {
      driver: open(),
      reopen: async () => open(),
      sample: (name) => ({ volume: { name, ...source } }),
      ...(broken && { broken: (name: string) => ({ volume: { name, ...broken } }) }),
      change: async () => {
        put();
        return files(round);
      },
      unsupported: { writing: 'pods only read it', private: 'pods only read it', ...needsRoot, ...unsupported },
      dispose: () => api.stop(),
    };
  };
}
const keys = (round: number) => ({ color: `blue ${round}`, ...(round % 2 === 0 && { even: `${round}` }) });

volumeContract(
  'configMap',
  overApi((sources) => new ConfigMapDriver(sources), { configMap: { name: 'app' } }, keys, { configMap: { name: 'none' } }),
);
volumeContract(
  'secret',
  overApi((sources) => new SecretDriver(sources), { secret: { secretName: 'app' } }, keys, {
    secret: { secretName: 'app', items: [{ key: 'none', path: 'x' }] },
  }),
);
volumeContract(
  'downwardAPI',
  overApi(
    (sources) => new DownwardApiDriver(sources),
    { downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] } },
    () => ({ labels: 'app="contract"' }),
    { downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'status.phase' } }] } },
  ),
);
volumeContract(
  'projected',
  overApi(
    (sources) => new ProjectedDriver(sources),
    {
      projected: {
        sources: [
          { configMap: { name: 'app', items: [{ key: 'color', path: 'settings' }] } },
          { downwardAPI: { items: [{ path: 'name', fieldRef: { fieldPath: 'metadata.namespace' } }] } },
        ],
      },
    },
    (round) => ({ settings: `blue ${round}`, name: 'default' }),
    { projected: { sources: [{ secret: { name: 'none' } }] } },
  ),
);
