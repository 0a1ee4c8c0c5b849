import { spawn } from 'node:child_process';
import { cp, mkdir, readFile, realpath, writeFile } from 'node:fs/promises';
import { createWriteStream } from 'node:fs';
import { request, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { pack } from '../../tools/pack.mjs';
import { standalone } from '../../tools/standalone.mjs';
import type { RunningDocker } from '../fixtures/docker.ts';
import { tar, type TarEntry } from '../fixtures/tar.ts';
import { buildImage, busyboxLayer, imageArchive } from '../fixtures/test-image.ts';
import { componentMissing } from '../harness/component-availability.ts';
import { composition } from '../harness/composition.ts';
import { Helm, helmMissing } from '../harness/helm.ts';
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

/** Writes the archive of the image into a file. */
async function saveImage(socketPath: string, file: string): Promise<void> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request({ socketPath, path: `/images/${image}/get` }, resolve)
      .once('error', reject)
      .end();
  });
  expect(response.statusCode).toBe(200);
  await pipeline(response, createWriteStream(file));
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

  const helmReason = helmMissing();
  it.skipIf(helmReason !== undefined && !everythingIsNeeded)(
    `is what the Helm chart runs in a pod of containerd: a virtual cluster that keeps its state over an upgrade and a rollback${helmReason === undefined ? '' : ` (${helmReason})`}`,
    async () => {
      const containerd = await machine.containerd();
      const archive = machine.path('image.tar');
      await saveImage(docker.socket, archive);
      await containerd.importImages(archive);
      const spec = { ...composition({ storage: 'memory', runtime: 'containerd', network: 'bridge', containerd }), volumes: ['volume-csi'] };
      const outer = await machine.cluster({ spec });
      const helm = new Helm(outer);
      const chart = join(root, 'packaging', 'helm', 'oarlock');
      const [repository = '', tag = ''] = image.split(':');
      // `--set` would make a number of the tag
      const values = ['--set-string', `image.repository=${repository},image.tag=${tag}`];
      const release = ['team-a', chart, '--namespace', 'team-a', ...values];
      expect(await helm.run(['lint', '--strict', chart, ...values])).toContain('1 chart(s) linted, 0 chart(s) failed');
      const installed = await helm.run(['install', ...release, '--create-namespace', '--wait', '--timeout', '280s']);

      // the notes of the release are the instructions of a user
      const [rollout = '', kubeconfig = '', forward = ''] = [...installed.matchAll(/^ {2}(kubectl (?:.*\\\n)*.*)$/gm)].map(
        ([, line]) => line,
      );
      const folder = machine.path('user');
      await mkdir(folder);
      const used = async (args: string) => {
        await helm.shell(rollout, folder);
        await helm.shell(kubeconfig, folder);
        const [file = '', ...words] = forward.split(' ');
        expect(file).toBe('kubectl');
        const forwarding = new Daemon(outer.kubectl.file, words, { env: outer.kubectl.env });
        try {
          await forwarding.line(/^Forwarding from 127\.0\.0\.1:8443/);
          return await helm.shell(`kubectl --kubeconfig virtual.kubeconfig ${args}`, folder);
        } finally {
          await forwarding.stop();
        }
      };
      expect(await used('create namespace virtual')).toBe('namespace/virtual created\n');
      expect(await outer.kubectl.run(['get', 'namespaces', '-o', 'name'])).not.toContain('virtual');

      const podUid = () => outer.kubectl.run(['-n', 'team-a', 'get', 'pod', 'team-a-0', '-o', 'jsonpath={.metadata.uid}']);
      const first = await podUid();
      await helm.run(['upgrade', ...release, '--set', 'spec.featureGates.MutatingAdmissionPolicy=true', '--wait', '--timeout', '280s']);
      const second = await podUid();
      expect(second).not.toBe(first);
      expect(await used('get namespaces -o name')).toContain('namespace/virtual\n');
      await helm.run(['rollback', 'team-a', '1', '--namespace', 'team-a', '--wait', '--timeout', '280s']);
      expect(await podUid()).not.toBe(second);
      expect(await used('get namespaces -o name')).toContain('namespace/virtual\n');
      await helm.run(['uninstall', 'team-a', '--namespace', 'team-a', '--wait', '--timeout', '280s']);
      expect(
        await outer.kubectl.run(['-n', 'team-a', 'get', 'statefulsets,services,configmaps,persistentvolumeclaims', '-o', 'name']),
      ).toBe('configmap/kube-root-ca.crt\npersistentvolumeclaim/state-team-a-0\n');
    },
  );

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
