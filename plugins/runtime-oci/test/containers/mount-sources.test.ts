import { mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { resolveMountSources } from '../../src/containers/mount-sources.ts';

const directory = realpathSync(mkdtempSync(join(tmpdir(), 'mount-sources-')));
afterAll(() => rmSync(directory, { recursive: true }));
const identity = (path: string) => {
  const { dev, ino } = statSync(path, { bigint: true });
  return `${dev}:${ino}`;
};

describe('sources of mounts', () => {
  it('are resolved on the node, and created if they do not exist', () => {
    mkdirSync(join(directory, 'content'));
    symlinkSync(join(directory, 'content'), join(directory, 'link'));
    const mounts = ['link', 'new/one'].map((name) => ({ containerPath: `/${name}`, hostPath: join(directory, name) }));
    expect(resolveMountSources(mounts).map(({ hostPath }) => hostPath)).toEqual([join(directory, 'content'), join(directory, 'new/one')]);
    expect(statSync(join(directory, 'new/one')).isDirectory()).toBe(true);
  });

  it('of images are not paths of the node', () => {
    const mounts = [{ containerPath: '/image', hostPath: '', image: 'sha256:1' }];
    expect(resolveMountSources(mounts)).toEqual(mounts);
  });

  it('are rejected if they are not the file that the kubelet checked', () => {
    const [checked, other] = ['checked', 'other'].map((name) => join(directory, name)) as [string, string];
    for (const path of [checked, other]) mkdirSync(path);
    const mount = { containerPath: '/data', hostPath: checked, checkedFile: identity(checked) };
    expect(resolveMountSources([mount])).toEqual([mount]);
    rmSync(checked, { recursive: true });
    symlinkSync(other, checked);
    expect(() => resolveMountSources([mount])).toThrow('the source of the mount at /data changed after the kubelet checked it');
  });
});
