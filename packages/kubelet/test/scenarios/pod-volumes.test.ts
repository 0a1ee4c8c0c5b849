import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { configMaps, pods, secrets, serviceAccounts } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { prepareSafeSubPath } from '../../src/volumes/sub-path.ts';
import { mountsBelow, unmountAll } from '../../src/volumes/internal/mount-points.ts';
import { app, Bench, container, isReady, podOf, withTraits } from '../support/bench.ts';

const startFails = { 'simulated.oarlock.dev/fail-start': 'exec: "nonesuch": executable file not found in $PATH' };

describe('volumes of a pod', () => {
  let bench: Bench;
  beforeEach(async () => {
    bench = await new Bench({
      wrap: (driver) => withTraits(driver, { simulated: false, networkNamespaces: true }),
      config: {
        files: true,
        evictionHard: {
          memoryAvailable: '0',
          diskAvailable: '0',
          inodesFree: '0',
          imageAvailable: '0',
          imageInodesFree: '0',
          pidAvailable: '0',
        },
      },
    }).start();
  });
  afterEach(() => bench.dispose());

  // files are real, so that simulated time does not help: poll the API
  const seen = (name: string, holds: (pod: Pod | undefined) => boolean) =>
    vi.waitFor(
      () => {
        if (!holds(bench.pod(name))) throw new Error(`${JSON.stringify(bench.pod(name)?.status)}\n${bench.events.lines.join('\n')}`);
        return bench.pod(name);
      },
      { timeout: 120_000, interval: 5 },
    );
  const mounts = async (name: string) => {
    const [found] = await bench.runtime.listContainers({ labels: { 'io.kubernetes.pod.name': name }, state: 'RUNNING' });
    return new Map((await bench.runtime.containerStatus(found?.id ?? '')).mounts.map((mount) => [mount.containerPath, mount]));
  };

  it('are mounted into the container, with a hosts file and a termination message file', async () => {
    bench.api.seed(configMaps, { metadata: { name: 'conf', namespace: 'default' }, data: { color: 'blue' } });
    bench.create(
      podOf('web', {
        hostname: 'w',
        subdomain: 'team',
        hostAliases: [{ ip: '1.2.3.4', hostnames: ['a', 'b'] }],
        volumes: [
          { name: 'conf', configMap: { name: 'conf' } },
          { name: 'tmp', emptyDir: {} },
          { name: 'unused', emptyDir: {} },
          { name: 'host', hostPath: { path: '/etc' } },
        ],
        containers: [
          app({
            volumeMounts: [
              { name: 'conf', mountPath: '/conf', readOnly: true },
              { name: 'tmp', mountPath: '/tmp', subPath: 'a/b' },
              { name: 'host', mountPath: '/host', mountPropagation: 'HostToContainer' },
            ],
          }),
        ],
      }),
    );
    const pod = await seen('web', isReady);
    const found = await mounts('web');
    expect([...found.keys()].sort()).toEqual(['/conf', '/dev/termination-log', '/etc/hosts', '/host', '/tmp']);
    expect(found.get('/conf')).toMatchObject({ readonly: true });
    expect(found.get('/host')).toEqual({ containerPath: '/host', hostPath: '/etc', propagation: 'HOST_TO_CONTAINER' });
    expect(await readFile(join(found.get('/conf')?.hostPath ?? '', 'color'), 'utf8')).toBe('blue');
    const hosts = await readFile(found.get('/etc/hosts')?.hostPath ?? '', 'utf8');
    expect(hosts.startsWith('# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n')).toBe(true);
    expect(hosts).toContain('10.128.0.1\tw.team.default.svc.cluster.local\tw\n');
    expect(hosts.endsWith('\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n')).toBe(true);
    expect((await stat(found.get('/dev/termination-log')?.hostPath ?? '')).mode & 0o777).toBe(0o666);
    expect((await stat(found.get('/tmp')?.hostPath ?? '')).isDirectory()).toBe(true);
    expect(container(pod)?.volumeMounts).toEqual([
      { name: 'conf', mountPath: '/conf', readOnly: true, recursiveReadOnly: 'Disabled' },
      { name: 'tmp', mountPath: '/tmp' },
      { name: 'host', mountPath: '/host' },
    ]);
    const directory = bench.kubelet.context.paths.pod(pod?.metadata?.uid ?? '');
    expect(existsSync(directory)).toBe(true);
    await bench.delete('web');
    await seen('web', (one) => one === undefined);
    expect(existsSync(directory)).toBe(false);
    expect(await mountsBelow(bench.directory)).toEqual([]);
    expect(await readdir(bench.kubelet.context.paths.logs)).toEqual([]);
  });

  it('are updated when their source objects or the labels of the pod change', async () => {
    bench.api.seed(configMaps, { metadata: { name: 'conf', namespace: 'default' }, data: { color: 'blue' } });
    bench.create(
      podOf('web', {
        volumes: [
          {
            name: 'all',
            projected: {
              sources: [
                { configMap: { name: 'conf' } },
                { secret: { name: 'late', optional: true } },
                { downwardAPI: { items: [{ path: 'labels', fieldRef: { fieldPath: 'metadata.labels' } }] } },
              ],
            },
          },
        ],
        containers: [app({ volumeMounts: [{ name: 'all', mountPath: '/all' }] })],
      }),
    );
    await seen('web', isReady);
    const path = (await mounts('web')).get('/all')?.hostPath ?? '';
    const content = async () =>
      Object.fromEntries(
        await Promise.all(
          (await readdir(path))
            .filter((name) => !name.startsWith('..'))
            .map(async (name) => [name, await readFile(join(path, name), 'utf8')] as const),
        ),
      );
    const shows = (wanted: Record<string, string>) =>
      vi.waitFor(async () => expect(await content()).toEqual(wanted), { timeout: 120_000, interval: 5 });
    expect(await content()).toEqual({ color: 'blue', labels: '' });
    await bench.api.client().patch(configMaps, { namespace: 'default', name: 'conf' }, 'merge', { data: { color: null, shape: 'round' } });
    await shows({ shape: 'round', labels: '' });
    await bench.api
      .client()
      .create(secrets, { metadata: { name: 'late', namespace: 'default' }, data: { key: Buffer.from('s').toString('base64') } });
    await shows({ shape: 'round', labels: '', key: 's' });
    await bench.api.client().patch(pods, { namespace: 'default', name: 'web' }, 'merge', { metadata: { labels: { b: '2', a: '1' } } });
    await shows({ shape: 'round', labels: 'a="1"\nb="2"', key: 's' });
  });

  it('refresh a service account token after 80 % of its lifetime', async () => {
    bench.api.seed(serviceAccounts, { metadata: { name: 'bot', namespace: 'default' } });
    bench.create(
      podOf('web', {
        serviceAccountName: 'bot',
        volumes: [
          {
            name: 'token',
            projected: {
              defaultMode: 0o644,
              sources: [{ serviceAccountToken: { path: 'token', expirationSeconds: 1000, audience: 'vault' } }],
            },
          },
        ],
        containers: [app({ volumeMounts: [{ name: 'token', mountPath: '/token' }] })],
      }),
    );
    await seen('web', isReady);
    const path = join((await mounts('web')).get('/token')?.hostPath ?? '', 'token');
    const first = await readFile(path, 'utf8');
    expect(first).toMatch(/^token:default:bot:/);
    const [asked] = bench.api.requests.filter(({ subresource }) => subresource === 'token');
    expect(asked?.body).toMatchObject({
      spec: {
        audiences: ['vault'],
        expirationSeconds: 1000,
        boundObjectRef: { kind: 'Pod', name: 'web', uid: bench.pod('web')?.metadata?.uid },
      },
    });
    await bench.clock.advance(790_000);
    expect(await readFile(path, 'utf8')).toBe(first);
    await bench.clock.advance(11_000);
    await vi.waitFor(async () => expect(await readFile(path, 'utf8')).not.toBe(first), { timeout: 120_000, interval: 20 });
  });

  it('delay the pod until a missing object exists', async () => {
    bench.create(
      podOf('web', {
        volumes: [{ name: 'conf', configMap: { name: 'late' } }],
        containers: [app({ volumeMounts: [{ name: 'conf', mountPath: '/conf' }] })],
      }),
    );
    await vi.waitFor(
      () =>
        expect(bench.events.of('FailedMount')).toEqual([
          'web Warning FailedMount: MountVolume.SetUp failed for volume "conf" : configmap "late" not found',
        ]),
      120_000,
    );
    expect(container(bench.pod('web'))?.state?.waiting?.reason).toBe('ContainerCreating');
    await bench.api.client().create(configMaps, { metadata: { name: 'late', namespace: 'default' }, data: { a: '1' } });
    await seen('web', isReady);
  });

  it('of API objects are read-only in containers, as upstream', async () => {
    bench.api.seed(configMaps, { metadata: { name: 'files', namespace: 'default' }, data: { a: '1' } });
    const sources = {
      conf: { configMap: { name: 'files' } },
      down: { downwardAPI: {} },
      all: { projected: { sources: [] } },
      own: { emptyDir: {} },
    };
    bench.create(
      podOf('objects', {
        containers: [app({ volumeMounts: Object.keys(sources).map((name) => ({ name, mountPath: `/${name}` })) })],
        volumes: Object.entries(sources).map(([name, source]) => ({ name, ...source })),
      }),
    );
    await seen('objects', isReady);
    const found = await mounts('objects');
    expect(Object.keys(sources).map((name) => found.get(`/${name}`)?.readonly)).toEqual([true, true, true, undefined]);
  });

  it('do not lead the reader of termination messages to other files', async () => {
    bench.create(podOf('link', { restartPolicy: 'Never' }));
    await seen('link', isReady);
    const [one] = await bench.runtime.listContainers({ labels: { 'io.kubernetes.pod.name': 'link' } });
    const file = (await mounts('link')).get('/dev/termination-log')?.hostPath ?? '';
    await writeFile(join(dirname(file), 'secret'), 'secret');
    await rm(file);
    await symlink('secret', file);
    bench.runtime.finish(one?.id ?? '', 3);
    const { terminated } = container(await seen('link', (pod) => pod?.status?.phase === 'Failed'))?.state ?? {};
    expect(terminated).toMatchObject({ exitCode: 3 });
    expect(terminated?.message).toBeUndefined();
  });

  it('provide the termination message', async () => {
    bench.create(podOf('file', { restartPolicy: 'Never' }));
    bench.create(podOf('log', { restartPolicy: 'Never', containers: [app({ terminationMessagePolicy: 'FallbackToLogsOnError' })] }));
    await seen('file', isReady);
    await seen('log', isReady);
    const [one] = await bench.runtime.listContainers({ labels: { 'io.kubernetes.pod.name': 'file' } });
    const [two] = await bench.runtime.listContainers({ labels: { 'io.kubernetes.pod.name': 'log' } });
    await writeFile((await mounts('file')).get('/dev/termination-log')?.hostPath ?? '', 'out of coffee');
    const { logPath } = await bench.runtime.containerStatus(two?.id ?? '');
    await writeFile(logPath, '2026-01-01T00:00:00Z stdout F first\n2026-01-01T00:00:00Z stderr F last words\n');
    bench.runtime.finish(one?.id ?? '', 3);
    bench.runtime.finish(two?.id ?? '', 4);
    expect(container(await seen('file', (pod) => pod?.status?.phase === 'Failed'))?.state?.terminated).toMatchObject({
      exitCode: 3,
      message: 'out of coffee',
    });
    expect(container(await seen('log', (pod) => pod?.status?.phase === 'Failed'))?.state?.terminated).toMatchObject({
      exitCode: 4,
      message: 'first\nlast words\n',
    });
  });

  it('do not hide the runtime error of a failed start', async () => {
    bench.create(
      podOf('bad', { restartPolicy: 'Never', containers: [app({ terminationMessagePolicy: 'FallbackToLogsOnError' })] }, startFails),
    );
    expect(container(await seen('bad', (pod) => pod?.status?.phase === 'Failed'))?.state?.terminated).toMatchObject({
      exitCode: 128,
      reason: 'StartError',
      message: 'exec: "nonesuch": executable file not found in $PATH',
    });
  });

  it('of deleted pods are removed when the kubelet starts', async () => {
    const { paths } = bench.kubelet.context;
    await mkdir(join(paths.pod('gone'), 'volumes', 'emptyDir', 'data'), { recursive: true });
    await bench.restart();
    expect(await readdir(paths.pods)).toEqual([]);
  });
});

describe('prepareSafeSubPath', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-subpath-'));
    await mkdir(join(directory, 'volume', 'inside'), { recursive: true });
    await mkdir(join(directory, 'outside'));
    await writeFile(join(directory, 'outside', 'secret'), 's');
  });
  afterEach(async () => {
    await unmountAll(directory);
    await rm(directory, { recursive: true, force: true });
  });
  const prepare = async (subPath: string, target?: string) =>
    (await prepareSafeSubPath({ volumePath: join(directory, 'volume'), subPath, target })).hostPath;

  it('identifies the checked file if the kubelet cannot mount it', async () => {
    const { checkedFile } = await prepareSafeSubPath({ volumePath: join(directory, 'volume'), subPath: 'inside', target: undefined });
    const { dev, ino } = await stat(join(directory, 'volume/inside'), { bigint: true });
    expect(checkedFile).toBe(`${dev}:${ino}`);
  });

  it('creates a missing path and follows links within the volume', async () => {
    expect(await prepare('new/deep')).toBe(join(directory, 'volume/new/deep'));
    await symlink('inside', join(directory, 'volume/link'));
    expect(await prepare('link')).toBe(join(directory, 'volume/inside'));
    await writeFile(join(directory, 'volume/inside/file'), 'f');
    expect(await prepare('link/file')).toBe(join(directory, 'volume/inside/file'));
  });

  it('never leaves the volume', async () => {
    await symlink('../outside', join(directory, 'volume/out'));
    await symlink('/etc', join(directory, 'volume/inside/abs'));
    for (const path of [
      '../outside',
      '/etc',
      'inside/../../outside',
      'out',
      'out/secret',
      'out/new',
      'inside/abs/passwd',
      'inside/abs/new',
    ]) {
      await expect(prepare(path), path).rejects.toMatchObject({ code: 'InvalidArgument' });
    }
    expect(await readdir(join(directory, 'outside'))).toEqual(['secret']);
  });

  it.runIf(process.getuid?.() === 0)('mounts the path so that a later link in its place has no effect', async () => {
    await writeFile(join(directory, 'volume/inside/file'), 'right');
    const target = join(directory, 'mounted');
    expect(await prepare('inside', target)).toBe(target);
    await rm(join(directory, 'volume/inside'), { recursive: true });
    await symlink('../outside', join(directory, 'volume/inside'));
    expect(await readdir(target)).toEqual([]);
    const file = join(directory, 'file');
    await writeFile(join(directory, 'volume/one'), '1');
    expect(await prepare('one', file)).toBe(file);
    expect(await readFile(file, 'utf8')).toBe('1');
  });
});
