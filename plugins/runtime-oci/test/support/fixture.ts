import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openImageStore } from '@oarlock/oci/open-image-store';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { canMakeNamespaces, findProgram } from '@oarlock/process-supervisor/host/host-tools';
import type { NetworkDriver } from '@oarlock/spi/network';
import { shellPrograms, type RuntimeFixture } from '@oarlock/spi/runtime/contract';
import { startRegistry } from '../../../../e2e/fixtures/registry.ts';
import { buildImage, busyboxImage, busyboxLayer } from '../../../../e2e/fixtures/test-image.ts';
import { OciRuntime, type OciRuntimeConfig } from '../../src/oci-runtime.ts';
import type { RuntimeMode } from '../../src/runtime-mode.ts';

const run = promisify(execFile);

export const missingForRoot = (): string | undefined => (canMakeNamespaces() ? undefined : 'namespaces need root');
export function missingForRunc(): string | undefined {
  return missingForRoot() ?? (findProgram('runc') === undefined ? 'runc is not installed' : undefined);
}
export const runcMode = (): RuntimeMode => ({ program: 'runc', path: findProgram('runc') ?? '', user: 'root' });

/** A network plugin that sets up only loopback in the namespace. */
export function loopbackNetwork(): NetworkDriver {
  let last = 1;
  return {
    traits: { namespace: 'pod', podCIDR: '192.0.2.0/24', serviceCIDR: '198.51.100.0/24' },
    setup: async () => {},
    async add({ netns = '' }) {
      await run('nsenter', [`--net=${netns}`, 'ip', 'link', 'set', 'lo', 'up']);
      last = (last % 250) + 1;
      return { ips: [`192.0.2.${last}`] };
    },
    check: async () => {},
    del: async () => {},
    status: async () => ({ ready: true, message: '' }),
    gc: async () => {},
  };
}

export interface OciFixture extends RuntimeFixture {
  readonly dataDir: string;
  readonly driver: OciRuntime;
  restartClient(): Promise<OciRuntime>;
}

/** Opens a runtime with the image `busyboxImage`, and a registry with another image. */
export async function openRuntime(
  mode: RuntimeMode = runcMode(),
  { network, config }: { readonly network?: NetworkDriver; readonly config?: Partial<OciRuntimeConfig> } = {},
): Promise<OciFixture> {
  const directory = await mkdtemp(join(tmpdir(), 'runtime-oci-'));
  const dataDir = join(directory, 'data');
  const layer = await busyboxLayer();
  const credentials = { username: 'someone', password: 'secret' };
  const registry = await startRegistry(
    [
      buildImage('oarlock.test/pulled:1', layer, { Cmd: ['/bin/sh'] }),
      buildImage(busyboxImage, layer, { Cmd: ['/bin/sh'], Env: ['PATH=/bin', 'FROM_IMAGE=yes'] }),
    ],
    credentials,
  );
  const open = (path: string) => openImageStore({ directory: path, clock: systemClock, log: silentLogger });
  const store = await open(join(dataDir, 'images'));
  const image = await store.images.pull({ reference: `${registry.host}/busybox:1`, credentials });
  await store.images.close();
  const make = async (more: Partial<OciRuntimeConfig> = {}) => {
    const settings = { keepPods: true, stopGraceSeconds: 2, idleSeconds: 30, ...config, ...more };
    const driver = new OciRuntime(settings, network, { clock: systemClock, log: silentLogger, dataDir, mode, openImages: open });
    await driver.start();
    return driver;
  };
  let driver = await make();
  return {
    driver,
    dataDir,
    image: image.id,
    command: shellPrograms(),
    pull: { image: `${registry.host}/pulled:1`, auth: credentials, missing: `${registry.host}/missing:1` },
    unsupported: driver.traits.networkNamespaces
      ? {}
      : { addresses: "sandboxes share the host's network; the kubelet gets their addresses" },
    async restartClient() {
      await driver.stop();
      driver = await make();
      return driver;
    },
    async dispose() {
      await driver.stop();
      await (await make({ keepPods: false })).stop();
      await registry.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
