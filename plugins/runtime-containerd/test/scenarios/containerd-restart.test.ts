import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import type { ContainerConfig, PodSandboxConfig, RuntimeEvent } from '@oarlock/spi/runtime';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { containerdMissing, startContainerd, type RunningContainerd } from '../../../../e2e/fixtures/containerd.ts';
import { busyboxImage } from '../../../../e2e/fixtures/test-image.ts';
import { ContainerdRuntime } from '../../src/containerd-runtime.ts';

const missing = await containerdMissing();
if (missing !== undefined && process.env['CI'] === 'true') throw new Error(missing);

describe.skipIf(missing !== undefined)(
  `when containerd is killed${missing === undefined ? '' : ` (skipped: ${missing})`}`,
  { timeout: 300_000 },
  () => {
    let dir: string;
    let containerd: RunningContainerd;
    let driver: ContainerdRuntime;
    let sandboxConfig: PodSandboxConfig;
    let sandbox: string;

    beforeAll(async () => {
      dir = await mkdtemp(join(tmpdir(), 'oarlock-containerd-'));
      containerd = await startContainerd({ dir });
      driver = new ContainerdRuntime(
        { socket: containerd.socket, requestTimeoutSeconds: 30, imagePullTimeoutSeconds: 30, streamIdleSeconds: 60 },
        { clock: systemClock, log: silentLogger },
      );
      await driver.start(AbortSignal.timeout(20_000));
      const uid = randomUUID();
      sandboxConfig = {
        metadata: { name: 'p', uid, namespace: 'n', attempt: 0 },
        hostname: '',
        logDirectory: join(dir, 'logs'),
        portMappings: [],
        labels: {},
        annotations: {},
        linux: { security: { namespaces: { network: 'NODE', pid: 'CONTAINER', ipc: 'POD' } } },
      };
      sandbox = await driver.runPodSandbox(sandboxConfig, '');
    });
    afterAll(async () => {
      await driver.removePodSandbox(sandbox);
      await driver.stop();
      await containerd.stop();
      await rm(dir, { recursive: true, force: true });
    });

    async function run(name: string, script: string): Promise<string> {
      const config: ContainerConfig = {
        metadata: { name, attempt: 0 },
        image: { image: busyboxImage },
        command: ['/bin/sh', '-c', script],
        args: [],
        envs: [],
        mounts: [],
        labels: {},
        annotations: {},
        logPath: `${name}.log`,
        stdin: false,
        stdinOnce: false,
        tty: false,
        linux: { resources: {}, security: { namespaces: { network: 'NODE', pid: 'CONTAINER', ipc: 'POD' } } },
      };
      const id = await driver.createContainer(sandbox, config, sandboxConfig);
      await driver.startContainer(id);
      return id;
    }

    it('containers keep running, exit codes are kept and the event stream resumes', async () => {
      const running = await run('running', 'exec sleep 3600');
      // the container exits when a file exists, so that it exits while containerd is down
      const ending = await run('ending', 'while [ ! -e /tmp/go ]; do sleep 0.1; done; sleep 1; exit 7');
      const before = await driver.containerStatus(running);
      const stop = new AbortController();
      const items = driver.events(stop.signal)[Symbol.asyncIterator]();
      expect((await items.next()).value).toBe('resync');

      const session = driver.exec(running, ['sleep', '3600'], { tty: false, stdin: new PassThrough() });
      const broken = session.then(
        () => undefined,
        (error: unknown) => error,
      );
      expect((await driver.execSync(ending, ['touch', '/tmp/go'], 5)).exitCode).toBe(0);

      await containerd.kill9();
      expect(await broken).toMatchObject({ name: 'RuntimeError', code: 'Unavailable' });
      await expect(driver.listContainers()).rejects.toMatchObject({ code: 'Unavailable' });
      await containerd.restart();

      const nextMatching = async (match: (item: RuntimeEvent | 'resync') => boolean) => {
        for (let next = await items.next(); !next.done; next = await items.next()) if (match(next.value)) return;
        throw new Error('the events ended');
      };
      await nextMatching((item) => item === 'resync');
      expect(await driver.containerStatus(running)).toEqual(before);
      while ((await driver.containerStatus(ending)).state !== 'EXITED') await items.next();
      expect(await driver.containerStatus(ending)).toMatchObject({ exitCode: 7, reason: 'Error' });
      expect((await driver.execSync(running, ['true'], 5)).exitCode).toBe(0);
      await driver.stopContainer(running, 0);
      await nextMatching((item) => item !== 'resync' && item.type === 'STOPPED' && item.containerId === running);
      stop.abort();
    });

    it('a driver that starts during the restart waits for containerd', async () => {
      await containerd.kill9();
      const other = new ContainerdRuntime(
        { socket: containerd.socket, requestTimeoutSeconds: 30, imagePullTimeoutSeconds: 30, streamIdleSeconds: 60 },
        { clock: systemClock, log: silentLogger },
      );
      // no limit except the test's own: the time in which a daemon starts depends on the machine
      const started = other.start(new AbortController().signal);
      try {
        await containerd.restart();
        await started;
        expect((await other.version()).name).toBe('containerd');
      } finally {
        await other.stop();
      }
    });

    it('an aborted start ends', async () => {
      const other = new ContainerdRuntime(
        { socket: join(dir, 'none.sock'), requestTimeoutSeconds: 30, imagePullTimeoutSeconds: 30, streamIdleSeconds: 60 },
        { clock: systemClock, log: silentLogger },
      );
      await expect(other.start(AbortSignal.timeout(200))).rejects.toThrow();
      await other.stop();
    });
  },
);
