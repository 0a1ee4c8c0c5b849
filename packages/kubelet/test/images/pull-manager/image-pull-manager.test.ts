import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@oarlock/primitives/logger';
import type { Image } from '@oarlock/spi/runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CredentialSource, TrackedAuth } from '../../../src/images/keyring/docker-keyring.ts';
import type { CredentialVerificationSettings } from '../../../src/images/pull-manager/credential-verification-policy.ts';
import { ImagePullManager, type PullCheckResult } from '../../../src/images/pull-manager/image-pull-manager.ts';

const image = 'r.example/team/app:1';
const present = { image, imageRef: 'sha256:1' };
const other = { image: 'r.example/team/copy:1', imageRef: 'sha256:1' };

describe('ImagePullManager', () => {
  let rootDir: string;
  let clock: FakeClock;
  let images: Image[];
  let results: PullCheckResult[];
  beforeEach(async () => {
    rootDir = await mkdtemp(join(tmpdir(), 'oarlock-pull-records-'));
    clock = new FakeClock();
    images = [{ id: 'sha256:1', repoTags: [image], repoDigests: [], sizeBytes: 1 }];
    results = [];
  });
  afterEach(() => rm(rootDir, { recursive: true }));

  const open = async (verification: Partial<CredentialVerificationSettings> = {}) => {
    const manager = new ImagePullManager({
      rootDir,
      verification: { policy: 'NeverVerifyPreloadedImages', allowlist: [], ...verification },
      listImages: () => Promise.resolve(images),
      clock,
      log: silentLogger,
    });
    manager.listener = (result) => results.push(result);
    await manager.load(signal);
    return manager;
  };
  const signal = new AbortController().signal;
  const credentials = (source?: Partial<CredentialSource>, password = 'x'): TrackedAuth => ({
    auth: { username: 'user', password, serverAddress: 'r.example' },
    source: source && { kind: 'Secret', uid: 's-1', namespace: 'shop', name: 'pull', ...source },
  });
  const pulled = async (manager: ImagePullManager, used: TrackedAuth | undefined, of = present) => {
    await manager.recordPullIntent(of.image);
    await manager.recordImagePulled(of, used);
  };
  const check = (manager: ImagePullManager, auths: readonly TrackedAuth[], of = present) =>
    manager.mustAttemptImagePull(of, () => Promise.resolve(auths));
  const file = (folder: string, key: string) =>
    join(rootDir, 'image_manager', folder, `sha256-${createHash('sha256').update(key).digest('hex')}`);
  const record = async () => JSON.parse(await readFile(file('pulled', 'sha256:1'), 'utf8')) as unknown;

  it('records pulls in the format of upstream, for the owner of the kubelet alone', async () => {
    const manager = await open();
    await manager.recordPullIntent(image);
    expect(JSON.parse(await readFile(file('pulling', image), 'utf8'))).toEqual({
      kind: 'ImagePullIntent',
      apiVersion: 'kubelet.config.k8s.io/v1beta1',
      image,
    });
    await manager.recordImagePulled(present, credentials({}));
    await pulled(manager, credentials({ kind: 'ServiceAccount', uid: 'a-1', name: 'builder' }));
    expect(await readdir(join(rootDir, 'image_manager', 'pulling'))).toEqual([]);
    expect(await record()).toEqual({
      kind: 'ImagePulledRecord',
      apiVersion: 'kubelet.config.k8s.io/v1beta1',
      lastUpdatedTime: new Date(clock.now()).toISOString().replace('.000Z', 'Z'),
      imageRef: 'sha256:1',
      credentialMapping: {
        'r.example/team/app': {
          kubernetesSecrets: [{ uid: 's-1', namespace: 'shop', name: 'pull', credentialHash: expect.stringMatching(/^[0-9a-f]{64}$/) }],
          kubernetesServiceAccounts: [{ uid: 'a-1', namespace: 'shop', name: 'builder' }],
        },
      },
    });
    expect((await stat(file('pulled', 'sha256:1'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(rootDir, 'image_manager', 'pulled'))).mode & 0o777).toBe(0o700);
  });

  it('demands a pull from pods without the credentials of the pull, also after a restart', async () => {
    await pulled(await open(), credentials({}));
    const manager = await open();
    expect(await check(manager, [credentials({})])).toBe(false);
    expect(await check(manager, [])).toBe(true);
    expect(await check(manager, [credentials({ uid: 's-2', namespace: 'other' }, 'y')])).toBe(true);
    expect(await check(manager, [credentials()])).toBe(true);
    expect(results).toEqual(['credentialRecordFound', 'mustAuthenticate', 'mustAuthenticate', 'mustAuthenticate']);
  });

  it('accepts a rotated Secret and a copy of the Secret, and remembers them', async () => {
    const manager = await open();
    await pulled(manager, credentials({}));
    const copy = credentials({ uid: 's-2', namespace: 'other' });
    const rotated = credentials({}, 'new');
    expect(await check(manager, [copy])).toBe(false);
    expect(await check(manager, [rotated])).toBe(false);
    // the copy and the new password are known now, and the old password only through the copy
    const later = await open();
    expect(await check(later, [credentials({ uid: 's-3' }, 'new')])).toBe(false);
    expect(await check(later, [credentials({ uid: 's-2', namespace: 'other' }, 'newer')])).toBe(false);
  });

  it('compares service accounts by namespace, name and uid', async () => {
    const account = { kind: 'ServiceAccount', uid: 'a-1', name: 'builder' } as const;
    const manager = await open();
    await pulled(manager, credentials(account));
    expect(await check(manager, [credentials(account, 'another token')])).toBe(false);
    for (const different of [{ uid: 'a-2' }, { name: 'default' }, { namespace: 'other' }])
      expect(await check(manager, [credentials({ ...account, ...different })])).toBe(true);
  });

  it('lets all pods use what the node pulled, without a lookup of their credentials', async () => {
    const manager = await open();
    await pulled(manager, credentials({}));
    await pulled(manager, credentials());
    expect(await manager.mustAttemptImagePull(present, () => Promise.reject(new Error('unused')))).toBe(false);
    await pulled(manager, credentials({}));
    expect(await check(manager, [])).toBe(false);
    expect(await check(manager, [], other)).toBe(true);
  });

  it('reports a failure to read the credentials of a pod', async () => {
    const manager = await open();
    await pulled(manager, credentials({}));
    await expect(manager.mustAttemptImagePull(present, () => Promise.reject(new Error('no Secret')))).rejects.toThrow('no Secret');
    expect(results).toEqual(['error']);
  });

  it.each([
    ['NeverVerify', false, false, []],
    ['NeverVerifyPreloadedImages', false, true, []],
    ['NeverVerifyAllowlistedImages', true, true, ['r.example/other', 'r.example/team/app/*']],
    ['NeverVerifyAllowlistedImages', false, false, ['r.example/team/app']],
    ['NeverVerifyAllowlistedImages', false, false, ['r.example/*']],
    ['AlwaysVerify', true, true, []],
  ] as const)('with %s demands a pull of a preloaded image: %s, of a pulled image: %s', async (policy, preloaded, recorded, allowlist) => {
    const manager = await open({ policy, allowlist });
    expect(await check(manager, [])).toBe(preloaded);
    await pulled(manager, credentials({}));
    expect(await check(manager, [])).toBe(recorded);
  });

  it('does not take an image of a pull in progress for preloaded', async () => {
    const manager = await open();
    await manager.recordPullIntent(image);
    await manager.recordPullIntent(image);
    await manager.recordImagePullFailed(image);
    expect(await check(manager, [])).toBe(true);
    await manager.recordImagePullFailed(image);
    expect(await check(manager, [])).toBe(false);
  });

  it('takes the image of an interrupted pull for pulled with unknown credentials', async () => {
    images = [{ id: 'sha256:1', repoTags: ['docker.io/library/app:latest'], repoDigests: [], sizeBytes: 1 }];
    const manager = await open();
    await manager.recordPullIntent('app');
    await manager.recordPullIntent('absent');
    const later = await open();
    expect([later.intentCount, later.pulledRecordCount]).toEqual([1, 1]);
    expect(await check(later, [credentials({})], { image: 'app', imageRef: 'sha256:1' })).toBe(true);
    expect(await check(later, [credentials({})])).toBe(true);
    await pulled(later, credentials({}), { image: 'app', imageRef: 'sha256:1' });
    expect(await check(later, [credentials({})], { image: 'app', imageRef: 'sha256:1' })).toBe(false);
  });

  it('demands a pull if a record is unreadable, and replaces the record', async () => {
    await pulled(await open(), credentials({}));
    await writeFile(file('pulled', 'sha256:1'), '{"kind":');
    await writeFile(`${file('pulled', 'sha256:2')}.tmp`, '{');
    const manager = await open();
    expect(await check(manager, [credentials({})])).toBe(true);
    await pulled(manager, credentials({}));
    expect(await check(await open(), [credentials({})])).toBe(false);
    expect(await readdir(join(rootDir, 'image_manager', 'pulled'))).toHaveLength(1);
  });

  it('reads records of the version v1alpha1', async () => {
    await pulled(await open(), credentials({}));
    const text = await readFile(file('pulled', 'sha256:1'), 'utf8');
    await writeFile(file('pulled', 'sha256:1'), text.replace('/v1beta1', '/v1alpha1'));
    expect(await check(await open(), [credentials({})])).toBe(false);
  });

  it('keeps the intent if the record of a pull cannot be written', async () => {
    const manager = await open();
    await manager.recordPullIntent(image);
    await rm(join(rootDir, 'image_manager', 'pulled'), { recursive: true });
    await manager.recordImagePulled(present, credentials({}));
    expect(await check(await open(), [])).toBe(true);
  });

  it('removes the records of images that are gone, but not of pulls since', async () => {
    const manager = await open();
    await pulled(manager, credentials({}));
    await pulled(manager, credentials({}), { image, imageRef: 'sha256:2' });
    await manager.pruneUnknownRecords(signal);
    expect(manager.pulledRecordCount).toBe(2);
    await clock.advance(1000);
    await manager.pruneUnknownRecords(signal);
    expect(await readdir(join(rootDir, 'image_manager', 'pulled'))).toHaveLength(1);
    expect(await check(manager, [])).toBe(true);
  });
});
