import { spawn } from 'node:child_process';
import { cp, mkdir, readFile, realpath, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { pack } from '../../tools/pack.mjs';
import { standalone } from '../../tools/standalone.mjs';
import type { RunningDocker } from '../fixtures/docker.ts';
import { tar, type TarEntry } from '../fixtures/tar.ts';
import { buildImage, busyboxLayer, imageArchive } from '../fixtures/test-image.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { composition } from '../harness/composition.ts';
import { everyCombination, everythingIsNeeded, Machine } from '../harness/machine.ts';
import { root } from '../harness/oarlock.ts';
import { Daemon, runProgram } from '../harness/programs.ts';
import { until } from '../harness/until.ts';

const reason = await componentMissing.docker();
const base = 'oarlock.test/node-libraries:1';
const image = 'oarlock.test/oarlock:1';

interface Answer {
  readonly status: number;
  readonly body: string;
}
interface Inspected {
  readonly Config: { readonly User: string };
  readonly State: {
    readonly Running: boolean;
    readonly ExitCode: number;
    readonly Health: { readonly Status: string; readonly Log: unknown };
  };
}

/** Sends a request to a Docker engine. The body is JSON, or the output of a program that writes a tar archive. */
function engine(socketPath: string, [method, path]: readonly [string, string], body?: object | readonly string[]): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const isArchive = Array.isArray(body);
    const headers = { 'content-type': isArchive ? 'application/x-tar' : 'application/json' };
    const sent = request({ socketPath, method, path, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString('utf8') }));
    }).once('error', reject);
    if (isArchive)
      spawn('tar', body as string[], { stdio: ['ignore', 'pipe', 'inherit'] })
        .once('error', reject)
        .stdout.pipe(sent);
    else sent.end(body === undefined ? '' : JSON.stringify(body));
  });
}

/** A base image for machines without a registry: busybox, and the libraries that this machine's Node is linked with. */
async function baseImage() {
  const { stdout } = await runProgram('ldd', [process.execPath]);
  const libraries = [...stdout.matchAll(/(\/\S+) \(0x/g)].map(([, path = '']) => path);
  const entries: TarEntry[] = await Promise.all(
    libraries.map(async (path) => ({
      type: 'file' as const,
      path: path.slice(1),
      mode: 0o755,
      bytes: await readFile(await realpath(path)),
    })),
  );
  return buildImage(base, [await busyboxLayer(), tar(entries)], {});
}

/** Packs the command, and builds the image from packaging/docker as docs/services.md shows. */
async function buildControlPlane(folder: string, { socket, importImages }: RunningDocker): Promise<void> {
  await mkdir(folder);
  const packed = join(folder, 'packed');
  await pack(packed);
  const context = join(folder, 'context');
  await cp(join(root, 'packaging', 'docker'), context, { recursive: true });
  await mkdir(join(context, 'oarlock'));
  const archive = await standalone(join(packed, 'oarlock'), folder, { compression: 1 });
  await runProgram('tar', ['-xzf', archive, '--strip-components=1', '-C', join(context, 'oarlock')]);
  await writeFile(join(folder, 'base.tar'), imageArchive([await baseImage()]));
  await importImages(join(folder, 'base.tar'));
  const query = new URLSearchParams({ t: image, networkmode: 'none', buildargs: JSON.stringify({ BASE: base }) });
  const built = await engine(socket, ['POST', `/build?${query}`], ['-cf', '-', '-C', context, '.']);
  expect(built, built.body).toMatchObject({ status: 200, body: expect.stringContaining('Successfully tagged') });
}

describe.skipIf(reason !== undefined && !everythingIsNeeded)(`the container image${reason === undefined ? '' : ` (${reason})`}`, () => {
  const machine = Machine.use();
  let docker: RunningDocker;

  beforeAll(async () => {
    docker = await machine.docker();
    await buildControlPlane(machine.path('image'), docker);
  });

  it('runs a control plane as an ordinary user, and becomes healthy', async () => {
    const { socket } = docker;
    const HostConfig = {
      NetworkMode: 'none',
      ReadonlyRootfs: true,
      Tmpfs: { '/tmp': '' },
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
    };
    const created = await engine(socket, ['POST', '/containers/create'], { Image: image, HostConfig });
    const { Id } = JSON.parse(created.body) as { readonly Id: string };
    const inspect = async () => JSON.parse((await engine(socket, ['GET', `/containers/${Id}/json`])).body) as Inspected;
    const logs = async () => (await engine(socket, ['GET', `/containers/${Id}/logs?stdout=1&stderr=1`])).body;
    try {
      expect((await engine(socket, ['POST', `/containers/${Id}/start`])).status).toBe(204);
      const healthy = await until('the container is healthy or has ended', async () => {
        const found = await inspect();
        return (found.State.Health.Status === 'healthy' || !found.State.Running) && found;
      });
      expect(healthy.State.Health.Status, await logs()).toBe('healthy');
      expect(healthy.Config.User).toBe('65532:65532');
      await engine(socket, ['POST', `/containers/${Id}/stop?t=60`]);
      expect((await inspect()).State.ExitCode, await logs()).toBe(0);
    } finally {
      await engine(socket, ['DELETE', `/containers/${Id}?force=1&v=1`]);
    }
  });

  // `npm test` only submits the manifests, in packages.test.ts
  it.runIf(everyCombination)(
    'runs as the control plane of a virtual cluster in a pod, which keeps its state when the pod is replaced',
    async () => {
      const spec = { ...composition({ storage: 'memory', runtime: 'docker', network: 'bridge', docker }), volumes: ['volume-csi'] };
      const outer = await machine.cluster({ spec });
      const overlay = machine.path('overlay');
      await cp(join(root, 'packaging', 'kubernetes'), overlay, { recursive: true });
      const [newName = '', newTag = ''] = image.split(':');
      const file = join(overlay, 'kustomization.yaml');
      await writeFile(file, (await readFile(file, 'utf8')).replace(/newName: .*/, `newName: ${newName}, newTag: '${newTag}' }`));
      await outer.kubectl.run(['apply', '-k', overlay]);
      const inPod = (args: readonly string[]) => outer.kubectl.run(['-n', 'oarlock', ...args]);
      await inPod(['rollout', 'status', 'statefulset/oarlock', '--timeout=280s']);

      const used = async (args: readonly string[]) => {
        const forward = new Daemon(outer.kubectl.file, ['-n', 'oarlock', 'port-forward', 'service/oarlock', ':443'], {
          env: outer.kubectl.env,
        });
        try {
          const [, port = ''] = await forward.line(/^Forwarding from 127\.0\.0\.1:(\d+)/);
          const command = [
            '/opt/oarlock/bin/oarlock',
            'kubeconfig',
            '--data-dir',
            '/var/lib/oarlock/state',
            '--server',
            `https://127.0.0.1:${port}`,
          ];
          const kubeconfig = machine.path('kubeconfig');
          await writeFile(kubeconfig, await inPod(['exec', 'oarlock-0', '--', ...command]), { mode: 0o600 });
          return await outer.kubectl.run(args, { env: { KUBECONFIG: kubeconfig } });
        } finally {
          await forward.stop();
        }
      };
      await used(['create', 'namespace', 'virtual']);
      expect(await outer.kubectl.run(['get', 'namespaces', '-o', 'name'])).not.toContain('virtual');
      await inPod(['delete', 'pod', 'oarlock-0']);
      await inPod(['rollout', 'status', 'statefulset/oarlock', '--timeout=280s']);
      expect(await used(['get', 'namespaces', '-o', 'name'])).toContain('namespace/virtual');
    },
  );
});
