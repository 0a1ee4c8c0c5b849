import { mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { describe, expect, it } from 'vitest';
import { EmptyDirDriver } from '../../src/volumes/internal/empty-dir.ts';
import { mountsBelow, unmountAll } from '../../src/volumes/internal/mount-points.ts';
import { ProjectedDriver, type ObjectVolumeSources } from '../../src/volumes/internal/api-object-volumes.ts';
import { prepareSafeSubPath } from '../../src/volumes/sub-path.ts';

describe.skipIf(process.getuid?.() !== 0)('modes of an emptyDir with fsGroup', () => {
  it.each([
    ['', 0o2777],
    ['Memory', 0o3777],
  ])('of medium %j are kept over a restart of the kubelet and apply to sub-paths', async (medium, mode) => {
    const path = await mkdtemp(join(tmpdir(), 'oarlock-modes-'));
    const driver = new EmptyDirDriver();
    const pod = { metadata: { name: 'p', namespace: 'default', uid: 'u' }, spec: { containers: [] } };
    const request = { pod, volume: { name: 'v', emptyDir: { medium } }, path: join(path, 'v'), readOnly: false, fsGroup: 123 };
    const seen = async (place: string) => {
      const { mode: bits, gid } = await stat(place);
      return { mode: bits & 0o7777, gid };
    };
    try {
      const { hostPath } = await driver.mount(request);
      expect(await seen(hostPath)).toEqual({ mode, gid: 123 });
      await driver.mount(request);
      expect(await seen(hostPath)).toEqual({ mode, gid: 123 });
      const { hostPath: part } = await prepareSafeSubPath({ volumePath: hostPath, subPath: 'a/b', target: undefined });
      expect(await seen(part)).toEqual({ mode, gid: 123 });
    } finally {
      await driver.unmount(request);
      await rm(path, { recursive: true });
    }
  });
});

it.skipIf(process.getuid?.() !== 0)('a sub-path that was replaced is mounted again for the next container', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'oarlock-parts-'));
  const [file, target] = [join(dir, 'volume', 'config'), join(dir, 'parts', '0')];
  const prepare = async () => (await prepareSafeSubPath({ volumePath: join(dir, 'volume'), subPath: 'config', target })).hostPath;
  try {
    await mkdir(join(dir, 'volume'));
    await writeFile(file, 'old');
    expect(await readFile(await prepare(), 'utf8')).toBe('old');
    await writeFile(`${file}.new`, 'new');
    await rename(`${file}.new`, file);
    expect(await readFile(target, 'utf8')).toBe('old');
    expect(await readFile(await prepare(), 'utf8')).toBe('new');
    expect(await mountsBelow(target)).toEqual([target]);
    await prepare();
    expect(await mountsBelow(target)).toEqual([target]);
  } finally {
    await unmountAll(target);
    await rm(dir, { recursive: true });
  }
});

describe.skipIf(process.getuid?.() !== 0)('a service account token', () => {
  it.each([
    [{ runAsUser: 1000 }, { mode: 0o600, uid: 1000, gid: 0 }],
    [{ fsGroup: 10_000 }, { mode: 0o640, uid: 0, gid: 10_000 }],
    [
      { runAsUser: 1000, fsGroup: 10_000 },
      { mode: 0o640, uid: 1000, gid: 10_000 },
    ],
    [{}, { mode: 0o644, uid: 0, gid: 0 }],
  ])('of a pod with %j is a file of %j', async (securityContext, expected) => {
    const dir = await mkdtemp(join(tmpdir(), 'oarlock-token-'));
    const driver = new ProjectedDriver({ tokens: { token: async () => 'abc' }, clock: systemClock } as unknown as ObjectVolumeSources);
    const pod = { metadata: { name: 'p', namespace: 'default', uid: 'u' }, spec: { containers: [{ name: 'c' }], securityContext } };
    const volume = { name: 'v', projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } };
    const { fsGroup } = pod.spec.securityContext as { readonly fsGroup?: number };
    try {
      const { hostPath } = await driver.mount({
        pod,
        volume,
        path: join(dir, 'v'),
        readOnly: false,
        ...(fsGroup !== undefined && { fsGroup }),
      });
      const { mode, uid, gid } = await stat(join(hostPath, 'token'));
      expect({ mode: mode & 0o7777, uid, gid }).toEqual(expected);
    } finally {
      await rm(dir, { recursive: true });
    }
  });
});
