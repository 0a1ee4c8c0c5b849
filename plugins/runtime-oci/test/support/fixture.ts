import { execFile, execFileSync } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { canMakeNamespaces, findProgram } from '@oarlock/process-supervisor/host/host-tools';
import type { NetworkDriver } from '@oarlock/spi/network';
import { shellPrograms, type RuntimeFixture } from '@oarlock/spi/runtime/contract';
import { OciRuntime, type OciRuntimeConfig } from '../../src/oci-runtime.ts';
import type { RuntimeMode } from '../../src/runtime-mode.ts';
import { directoryImage, directoryImages } from './directory-images.ts';

const run = promisify(execFile);

/** Returns why containers cannot be run with an OCI runtime here; undefined if they can. */
export const missingForRoot = (): string | undefined => (canMakeNamespaces() ? undefined : 'namespaces need root');
export function missingForRunc(): string | undefined {
  return missingForRoot() ?? (findProgram('runc') === undefined ? 'runc is not installed' : undefined);
}

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

/** Writes the files of an image with busybox. */
export function writeBusybox(root: string): void {
  for (const name of ['bin', 'etc', 'tmp', 'root']) mkdirSync(join(root, name), { recursive: true });
  cpSync('/bin/busybox', join(root, 'bin/busybox'));
  execFileSync('/usr/sbin/chroot', [root, '/bin/busybox', '--install', '-s', '/bin']);
}

export interface OciFixture extends RuntimeFixture {
  readonly dataDir: string;
  readonly driver: OciRuntime;
  restartClient(): Promise<OciRuntime>;
}

export const runcMode = (): RuntimeMode => ({ program: 'runc', path: findProgram('runc') ?? '', user: 'root' });

export async function openRuntime(
  mode: RuntimeMode = runcMode(),
  { network, config }: { readonly network?: NetworkDriver; readonly config?: Partial<OciRuntimeConfig> } = {},
): Promise<OciFixture> {
  const directory = await mkdtemp(join(tmpdir(), 'runtime-oci-'));
  const files = join(directory, 'busybox');
  writeBusybox(files);
  const make = async (more: Partial<OciRuntimeConfig> = {}) => {
    const driver = new OciRuntime({ keepPods: true, stopGraceSeconds: 2, idleSeconds: 30, ...config, ...more }, network, {
      clock: systemClock,
      log: silentLogger,
      dataDir: join(directory, 'data'),
      mode,
      openImages: async (path) => directoryImages(path, directoryImage, files),
    });
    await driver.start();
    return driver;
  };
  let driver = await make();
  return {
    driver,
    dataDir: join(directory, 'data'),
    image: directoryImage.id,
    command: shellPrograms(),
    unsupported: {
      imagePull: 'the store has one image',
      imageRemove: 'the store has one image',
      ...(!driver.traits.networkNamespaces && { addresses: "sandboxes share the host's network; the kubelet gets their addresses" }),
    },
    async restartClient() {
      await driver.stop();
      driver = await make();
      return driver;
    },
    async dispose() {
      await driver.stop();
      await (await make({ keepPods: false })).stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
