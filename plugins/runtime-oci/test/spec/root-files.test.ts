import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findInLayers, overlayLayers, readInLayers, readInRoot, resolveInRoot } from '../../src/spec/root-files.ts';

let directory: string;
let root: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'oarlock-root-'));
  root = join(directory, 'root');
  mkdirSync(join(root, 'etc'), { recursive: true });
  writeFileSync(join(directory, 'secret'), 'of the node');
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

describe('readInRoot', () => {
  it('follows links inside of the root', () => {
    writeFileSync(join(root, 'etc/real'), 'inside');
    symlinkSync('/etc/real', join(root, 'etc/absolute'));
    symlinkSync('real', join(root, 'etc/relative'));
    expect(readInRoot(root, '/etc/absolute')).toBe('inside');
    expect(readInRoot(root, '/etc/relative')).toBe('inside');
  });

  it('never leaves the root, neither by links nor by parents', () => {
    symlinkSync('../../../../../../secret', join(root, 'etc/up'));
    symlinkSync(join(directory, 'secret'), join(root, 'etc/absolute'));
    symlinkSync(directory, join(root, 'out'));
    for (const path of ['/etc/up', '/etc/absolute', '/out/secret', '/../secret', '/etc/../../secret']) {
      expect(readInRoot(root, path)).toBe('');
      expect(resolveInRoot(root, path)?.startsWith(`${root}/`)).toBe(true);
    }
  });

  it('is empty for loops, directories, paths below files, and files that are too large', () => {
    symlinkSync('b', join(root, 'etc/a'));
    symlinkSync('a', join(root, 'etc/b'));
    writeFileSync(join(root, 'etc/large'), '');
    truncateSync(join(root, 'etc/large'), 4 * 1024 * 1024 + 1);
    expect(resolveInRoot(root, '/etc/a')).toBeUndefined();
    for (const path of ['/etc/a', '/etc', '/etc/large', '/etc/large/x', '/absent']) expect(readInRoot(root, path)).toBe('');
  });
});

describe('readInLayers', () => {
  it('reads the topmost layer that has the file, and follows no link to it', () => {
    const [top, bottom] = [join(directory, 'top'), join(directory, 'bottom')];
    for (const layer of [top, bottom]) mkdirSync(join(layer, 'etc'), { recursive: true });
    writeFileSync(join(bottom, 'etc/passwd'), 'lower');
    expect(readInLayers([top, bottom], '/etc/passwd')).toBe('lower');
    writeFileSync(join(top, 'etc/passwd'), 'upper');
    expect(readInLayers([top, bottom], '/etc/passwd')).toBe('upper');
    rmSync(join(top, 'etc/passwd'));
    symlinkSync('../../secret', join(top, 'etc/passwd'));
    expect(readInLayers([top, bottom], '/etc/passwd')).toBe('');
  });

  it('finds paths without links in layers that are not mounted', () => {
    const [top, bottom] = [join(directory, 'top'), join(directory, 'bottom')];
    for (const layer of [top, bottom]) mkdirSync(join(layer, 'etc'), { recursive: true });
    writeFileSync(join(bottom, 'etc/passwd'), 'lower');
    symlinkSync('../../secret', join(bottom, 'etc/link'));
    symlinkSync('/', join(bottom, 'out'));
    const found = (path: string) => findInLayers([top, bottom], path);
    expect(['', '/', '/etc', '/etc/passwd'].map(found)).toEqual(Array<string>(4).fill('present'));
    expect(['/absent', '/etc/absent', '/etc/passwd/x'].map(found)).toEqual(Array<string>(3).fill('absent'));
    expect(['/etc/link', '/out/etc', '/out'].map(found)).toEqual(Array<string>(3).fill('link'));
    // the kernel follows no link that a layer above replaces, but the rule need not know
    mkdirSync(join(top, 'out'));
    expect(found('/out')).toBe('link');
  });

  it('finds the layers in the options of a mount', () => {
    const options = ['userxattr', 'upperdir=up', 'workdir=work', 'lowerdir=a:b\\:c'];
    expect(overlayLayers(options, '/store')).toEqual(['/store/up', '/store/a', '/store/b:c']);
  });
});
