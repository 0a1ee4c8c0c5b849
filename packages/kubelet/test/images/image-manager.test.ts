import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { secrets } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { silentLogger } from '@oarlock/primitives/logger';
import { deferred } from '@oarlock/primitives/concurrency/deferred';
import { noTracer } from '@oarlock/kernel/tracing';
import { RuntimeError, type Image, type PodSandboxConfig, type RegistryAuth, type RuntimeDriver } from '@oarlock/spi/runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ProvidedCredentials } from '../../src/images/credential-provider/credential-providers.ts';
import { ImagePullMetrics } from '../../src/metrics/image-pull-metrics.ts';
import { ImageManager } from '../../src/images/image-manager.ts';
import { ImagePullManager } from '../../src/images/pull-manager/image-pull-manager.ts';

const image = 'r.example/team/app:1';
const pulled: Image = { id: 'sha256:1', repoTags: [image], repoDigests: [], sizeBytes: 7 } as unknown as Image;
const denied = new RuntimeError('PermissionDenied', 'pull access denied');

describe('ImageManager', () => {
  let api: MemoryApi;
  let clock: FakeClock;
  let events: string[];
  beforeEach(() => {
    clock = new FakeClock();
    api = memoryApi({ clock });
    events = [];
    const auths = { 'r.example': { username: 'secret', password: '1' } };
    const data = { '.dockerconfigjson': Buffer.from(JSON.stringify({ auths })).toString('base64') };
    api.seed(secrets, { apiVersion: 'v1', kind: 'Secret', metadata: { namespace: 'shop', name: 'pull' }, data });
  });
  afterEach(() => api.stop());

  const pod = (pullSecrets: readonly string[] = []): Pod => ({
    metadata: { namespace: 'shop', name: 'web', uid: 'u-1' },
    spec: { containers: [], imagePullSecrets: pullSecrets.map((name) => ({ name })) },
  });
  /** A manager whose registry accepts one user. `tried` has the users in the order of the pulls. */
  const open = (accepted: string, provide: () => Promise<ProvidedCredentials>, pullManager?: ImagePullManager) => {
    const tried: (string | undefined)[] = [];
    const present = () => (pullManager === undefined ? tried.at(-1) === accepted : tried.includes(accepted)) && pulled;
    const driver = {
      traits: { images: true },
      imageStatus: () => Promise.resolve(present() || undefined),
      pullImage: (_: string, auth: RegistryAuth | undefined) => {
        tried.push(auth?.username);
        return auth?.username === accepted ? Promise.resolve(pulled.id) : Promise.reject(denied);
      },
    } as unknown as RuntimeDriver;
    const forgotten: string[] = [];
    const asked: string[] = [];
    const manager = new ImageManager(driver, {
      objects: { get: (_, key) => Promise.resolve(api.object(secrets, { namespace: 'shop', name: key.split('/')[1] ?? '' }) as never) },
      credentialProviders: {
        provide: (repository) => {
          asked.push(repository);
          return provide();
        },
        forgetPod: (uid) => void forgotten.push(uid),
      },
      pullManager,
      clock,
      tracer: noTracer,
      metrics: new ImagePullMetrics([]),
      maxParallelPulls: 1,
      imagesChanged: () => {},
    });
    const pull = (of: Pod, reference = image, imagePullPolicy?: 'Never') =>
      manager.ensureImageExists({
        pod: of,
        container: { name: 'main', image: reference, ...(imagePullPolicy && { imagePullPolicy }) },
        sandbox: {} as PodSandboxConfig,
        signal: new AbortController().signal,
        spanContext: undefined,
        event: (type, reason, message) => void events.push(`${type} ${reason}: ${message}`),
      });
    return { manager, pull, tried, asked, forgotten };
  };
  const entry = (pattern: string, username: string) => ({ pattern, auth: { username, password: 'x' } });

  it('tries the credentials of imagePullSecrets, then those of credential providers, most specific first', async () => {
    const entries = [entry('r.example', 'wide'), entry('other.example', 'other'), entry('r.example/team', 'narrow')];
    const { pull, tried, asked } = open('wide', () => Promise.resolve({ entries, failures: ['a failure'] }));
    expect(await pull(pod(['pull']))).toEqual({ reference: 'sha256:1', image: pulled });
    expect(tried).toEqual(['secret', 'narrow', 'wide']);
    expect(asked).toEqual(['r.example/team/app']);
    expect(events.filter((line) => line.includes('a failure'))).toEqual([]);
  });

  it('pulls without credentials if no provider returns any, and reports why with the failure of the pull', async () => {
    const failures = ['credential provider "a": it ended with exit code 1', 'credential provider "b": its response is not JSON'];
    const { pull, tried } = open('nobody', () => Promise.resolve({ entries: [], failures }));
    const message = `pull access denied; ${failures.join('; ')}`;
    await expect(pull(pod())).rejects.toMatchObject({ reason: 'ErrImagePull', message });
    expect(tried).toEqual([undefined]);
    expect(events).toContain(`Warning Failed: Failed to pull image "${image}": ${message}`);
    await expect(pull(pod())).rejects.toMatchObject({
      reason: 'ImagePullBackOff',
      message: `Back-off pulling image "${image}": ErrImagePull: ${message}`,
    });
  });

  it('does not delay other pulls while a provider runs', async () => {
    const hanging = deferred();
    const waits = [hanging.promise, Promise.resolve()];
    const { pull } = open('user', async () => {
      await waits.shift();
      return { entries: [entry('r.example', 'user')], failures: [] };
    });
    const first = pull(pod());
    expect((await pull(pod(), 'r.example/team/other:1')).reference).toBe('sha256:1');
    hanging.resolve();
    expect((await first).reference).toBe('sha256:1');
  });

  it('drops what providers keep for a deleted pod', () => {
    const { manager, forgotten } = open('', () => Promise.reject(new Error('unused')));
    manager.forgetPod('u-1');
    expect(forgotten).toEqual(['u-1']);
  });

  describe('with records of pulls', () => {
    let rootDir: string;
    let pullManager: ImagePullManager;
    beforeEach(async () => {
      rootDir = await mkdtemp(join(tmpdir(), 'oarlock-image-manager-'));
      const verification = { policy: 'NeverVerifyPreloadedImages', allowlist: [] } as const;
      pullManager = new ImagePullManager({ rootDir, verification, listImages: () => Promise.resolve([]), clock, log: silentLogger });
      await pullManager.load(new AbortController().signal);
    });
    afterEach(() => rm(rootDir, { recursive: true }));
    const none = () => Promise.resolve({ entries: [], failures: [] });

    it('pulls a present image again for a pod without the credentials, and fails the pod with the message of the pull', async () => {
      const { pull, tried } = open('secret', none, pullManager);
      await pull(pod(['pull']));
      await pull(pod(['pull']));
      expect(tried).toEqual(['secret']);
      await expect(pull(pod())).rejects.toMatchObject({ reason: 'ErrImagePull', message: 'pull access denied' });
      await expect(pull(pod())).rejects.toMatchObject({ reason: 'ImagePullBackOff' });
      expect(tried).toEqual(['secret', undefined]);
    });

    it('does not disclose with the policy Never that an image is present', async () => {
      const { pull } = open('secret', none, pullManager);
      await pull(pod(['pull']));
      const message = `Container image "${image}" is not present with pull policy of Never`;
      await expect(pull(pod(), image, 'Never')).rejects.toMatchObject({ reason: 'ErrImageNeverPull', message });
      expect(await pull(pod(['pull']), image, 'Never')).toMatchObject({ reference: 'sha256:1' });
    });

    it('records the service account of a credential provider', async () => {
      const source = { kind: 'ServiceAccount', uid: 'a-1', namespace: 'shop', name: 'builder' } as const;
      let entries = [{ ...entry('r.example', 'builder'), source }];
      const { pull, tried } = open('builder', () => Promise.resolve({ entries, failures: [] }), pullManager);
      await pull(pod());
      entries = entries.map((each) => ({ ...each, auth: { username: 'builder', password: 'a new token' } }));
      await pull(pod());
      expect(tried).toEqual(['builder']);
      entries = [];
      await expect(pull(pod())).rejects.toMatchObject({ reason: 'ErrImagePull' });
    });

    it('does not pull an image whose intent cannot be recorded', async () => {
      const { pull, tried } = open('secret', none, pullManager);
      await rm(join(rootDir, 'image_manager'), { recursive: true });
      await expect(pull(pod(['pull']))).rejects.toMatchObject({
        reason: 'ErrImagePull',
        message: expect.stringMatching(`^Failed to record image pull intent for container image "${image}": .*ENOENT`),
      });
      expect(tried).toEqual([]);
      await pullManager.load(new AbortController().signal);
    });

    it('forgets the intent of a failed pull', async () => {
      const { pull } = open('nobody', none, pullManager);
      await expect(pull(pod())).rejects.toMatchObject({ reason: 'ErrImagePull' });
      expect(pullManager.intentCount).toBe(0);
    });
  });
});
