import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { runtimeContract, shellPrograms, type RuntimeFixture } from '@oarlock/spi/runtime/contract';
import { startContainerd, containerdMissing } from '../../../e2e/fixtures/containerd.ts';
import { startRegistry } from '../../../e2e/fixtures/registry.ts';
import { buildImage, busyboxImage, busyboxLayer } from '../../../e2e/fixtures/test-image.ts';
import { ContainerdRuntime } from '../src/containerd-runtime.ts';

const run = promisify(execFile);
const conflist = (dir: string) =>
  JSON.stringify({
    cniVersion: '0.4.0',
    name: 'contract',
    plugins: [
      {
        type: 'bridge',
        bridge: 'oarct0',
        isGateway: true,
        ipMasq: false,
        ipam: { type: 'host-local', dataDir: join(dir, 'ipam'), ranges: [[{ subnet: '10.213.77.0/24' }]], routes: [{ dst: '0.0.0.0/0' }] },
      },
    ],
  });

async function open(): Promise<RuntimeFixture> {
  const dir = await mkdtemp(join(tmpdir(), 'oarlock-containerd-'));
  const cniConfDir = join(dir, 'cni');
  await mkdir(cniConfDir);
  await writeFile(join(cniConfDir, '10-contract.conflist'), conflist(dir));
  const credentials = { username: 'someone', password: 'secret' };
  const [containerd, registry] = await Promise.all([
    startContainerd({ dir, cniConfDir }),
    startRegistry([buildImage('oarlock.test/pulled:1', await busyboxLayer(), { Cmd: ['/bin/sh'] })], credentials),
  ]);
  const opened = new Set<ContainerdRuntime>();
  const openDriver = async () => {
    const driver = new ContainerdRuntime(
      { socket: containerd.socket, requestTimeoutSeconds: 60, imagePullTimeoutSeconds: 60, streamIdleSeconds: 600 },
      { clock: systemClock, log: silentLogger },
    );
    opened.add(driver);
    await driver.start(AbortSignal.timeout(20_000));
    return driver;
  };
  let driver = await openDriver();
  const { version } = await driver.version();
  return {
    ...(/^1\.[0-6]\./.test(version) && {
      unsupported: { logBursts: `containerd ${version} closes its end of a container's pipe at the exit, with what it has not read yet` },
    }),
    driver,
    image: busyboxImage,
    command: shellPrograms(),
    pull: { image: `${registry.host}/pulled:1`, auth: credentials, missing: `${registry.host}/missing:1` },
    async restartClient() {
      await driver.stop();
      driver = await openDriver();
      return driver;
    },
    async dispose() {
      await driver.stop();
      await registry.stop();
      await containerd.stop();
      await run('ip', ['link', 'delete', 'oarct0']);
      await rm(dir, { recursive: true, force: true });
    },
  };
}

const missing = await containerdMissing();
if (missing !== undefined && process.env['CI'] === 'true') throw new Error(missing);
runtimeContract('runtime-containerd over containerd', open, missing === undefined ? {} : { unavailable: missing });
