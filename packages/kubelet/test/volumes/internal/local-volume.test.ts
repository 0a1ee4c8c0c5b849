import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LocalVolumeSource, PersistentVolumeSpec } from '@oarlock/api/types/core-v1';
import type { VolumeRequest } from '@oarlock/spi/volume';
import { volumeContract } from '@oarlock/spi/volume/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LocalVolumeDriver } from '../../../src/volumes/internal/local-volume.ts';

const root = process.getuid?.() === 0;
const loopDevices = root && (await stat('/dev/loop-control').catch(() => undefined)) !== undefined;

volumeContract('local', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'oarlock-local-'));
  const of = (name: string, path: string) => ({
    volume: { name, persistentVolumeClaim: { claimName: name } },
    persistentVolume: { metadata: { name }, spec: { local: { path } } },
  });
  return {
    driver: new LocalVolumeDriver(),
    reopen: async () => new LocalVolumeDriver(),
    dispose: () => rm(directory, { recursive: true, force: true }),
    sample: (name) => of(name, directory),
    broken: (name) => of(name, join(directory, 'none')),
    unsupported: {
      private: 'it is one directory of the node',
      refreshing: 'it has no content of its own',
      ...(!root && { fsGroup: 'only root can give files away' }),
    },
  };
});

describe.skipIf(!root)('LocalVolumeDriver with mount permission', () => {
  let dir: string;
  let undo: (() => unknown)[];
  const conflicts: string[] = [];
  const driver = new LocalVolumeDriver({ onShared: (_pod, _volume, text) => conflicts.push(text) });
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'oarlock-local-'));
    undo = [];
    conflicts.length = 0;
  });
  afterEach(async () => {
    for (const each of undo.toReversed()) await each();
    await rm(dir, { recursive: true, force: true });
  });

  function request(local: LocalVolumeSource, more: Partial<VolumeRequest> = {}, spec: Partial<PersistentVolumeSpec> = {}): VolumeRequest {
    const uid = randomUUID();
    const path = join(dir, 'pods', uid, 'volumes', 'local', 'data');
    undo.push(() => driver.unmount({ path }));
    return {
      pod: { metadata: { name: 'p', namespace: 'default', uid }, spec: { containers: [] } },
      volume: { name: 'data', persistentVolumeClaim: { claimName: 'c' } },
      persistentVolume: { metadata: { name: 'pv' }, spec: { ...spec, local } },
      path,
      readOnly: false,
      ...more,
    };
  }
  const disk = async () => {
    const path = join(dir, 'disk');
    await mkdir(path);
    await writeFile(join(path, 'old'), 'x');
    await chmod(join(path, 'old'), 0o600);
    return path;
  };
  const groupOf = async (path: string) => (await stat(path)).gid;

  it('gives a volume to the group of its first pod until no pod uses it, and reports conflicts', async () => {
    const path = await disk();
    const [first, second, third] = [
      request({ path }, { fsGroup: 1234 }),
      request({ path }, { fsGroup: 1234 }),
      request({ path }, { fsGroup: 4321 }),
    ];
    const { hostPath } = await driver.mount(first);
    expect([await groupOf(path), await groupOf(join(path, 'old')), await groupOf(hostPath)]).toEqual([1234, 1234, 1234]);
    expect((await stat(join(path, 'old'))).mode & 0o777).toBe(0o660);
    expect((await stat(path)).mode & 0o7070).toBe(0o2070);
    await driver.mount(second);
    expect(conflicts).toEqual([]);
    await driver.mount(third);
    expect(conflicts).toEqual(['The requested fsGroup is 4321, but the volume pv has GID 1234. The volume may not be shareable.']);
    expect(await groupOf(path)).toBe(1234);
    for (const one of [first, second, third]) await driver.unmount(one);
    const after = request({ path }, { fsGroup: 4321 });
    await driver.mount(after);
    expect([await groupOf(path), await groupOf(join(path, 'old'))]).toEqual([4321, 4321]);
  });

  it('keeps file owners with OnRootMismatch if the root already belongs to the group', async () => {
    const path = await disk();
    await chown(path, 0, 1234);
    await chmod(path, 0o2775);
    const lazy = request({ path }, { fsGroup: 1234 });
    await driver.mount({
      ...lazy,
      pod: { ...lazy.pod, spec: { containers: [], securityContext: { fsGroupChangePolicy: 'OnRootMismatch' } } },
    });
    expect(await groupOf(join(path, 'old'))).toBe(0);
  });

  it('mounts through links, read-only if the claim is, and never removes data', async () => {
    const path = await disk();
    await symlink(path, join(dir, 'link'));
    const one = request({ path: join(dir, 'link') }, { readOnly: true, fsGroup: 1234 });
    const { hostPath } = await driver.mount(one);
    expect(await readFile(join(hostPath, 'old'), 'utf8')).toBe('x');
    await expect(writeFile(join(hostPath, 'new'), '')).rejects.toMatchObject({ code: 'EROFS' });
    expect(await groupOf(path)).toBe(0);
    await driver.mount(one);
    await driver.unmount(one);
    await driver.unmount(one);
    expect(await readdir(path)).toEqual(['old']);
  });

  it.skipIf(!loopDevices)('formats an empty device, keeps an existing file system, and returns block devices', async () => {
    const file = join(dir, 'file');
    await writeFile(file, '');
    await truncate(file, 20 * 1024 * 1024);
    const device = execFileSync('losetup', ['-f', '--show', file], { encoding: 'utf8' }).trim();
    undo.push(() => execFileSync('losetup', ['-d', device]));
    const [first, second] = [request({ path: device }, { fsGroup: 1234 }), request({ path: device, fsType: 'ext4' })];
    const { hostPath } = await driver.mount(first);
    expect(await groupOf(hostPath)).toBe(1234);
    await writeFile(join(hostPath, 'kept'), 'y');
    const other = await driver.mount(second);
    expect(await readFile(join(other.hostPath, 'kept'), 'utf8')).toBe('y');
    await Promise.all([driver.unmount(first), driver.unmount(second)]);
    const again = request({ path: device });
    expect(await readFile(join((await driver.mount(again)).hostPath, 'kept'), 'utf8')).toBe('y');
    await symlink(device, join(dir, 'device'));
    expect(await driver.mount(request({ path: join(dir, 'device') }, {}, { volumeMode: 'Block' }))).toEqual({
      hostPath: device,
      device: true,
    });
    const wrong = request({ path: device, fsType: '../sh' });
    await expect(driver.mount(wrong)).rejects.toThrow('fsType "../sh" is not supported');
  });

  it('rejects paths that are not directories or devices', async () => {
    const path = await disk();
    await expect(driver.mount(request({ path: join(dir, 'none') }))).rejects.toThrow(`path "${join(dir, 'none')}" does not exist`);
    await expect(driver.mount(request({ path }, {}, { volumeMode: 'Block' }))).rejects.toThrow('is not a block device');
    await expect(driver.mount(request({ path: join(path, 'old') }))).rejects.toThrow('neither a directory nor a block device');
  });
});
