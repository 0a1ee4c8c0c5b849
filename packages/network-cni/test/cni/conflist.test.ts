import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { conflistBefore, ledgerFile, removeConflists, writeConflist } from '../../src/cni/conflist.ts';

const list = (name: string) => ({ cniVersion: '1.0.0', name, plugins: [{ type: name }] });

describe('conflist of a node', () => {
  let root: string;
  let directory: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'conflist-'));
    directory = join(root, 'net.d');
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  const write = (plugin: string, node = 'one') =>
    writeConflist({ directory, file: `10-${plugin}.conflist`, dataDir: join(root, node, 'plugins', plugin) }, list(plugin));
  /** Selects files as libcni does: by suffix, including hidden files. */
  const networkConfigs = async () => (await readdir(directory)).filter((name) => /\.(conf|conflist|json)$/.test(name)).sort();

  it('is the only one of its node, independent of the previous plugin', async () => {
    expect(await write('a')).toEqual([]);
    expect(await write('b')).toEqual(['10-a.conflist']);
    expect(await networkConfigs()).toEqual(['10-b.conflist']);
    expect(await conflistBefore(directory, '10-b.conflist')).toBeUndefined();
    expect(await write('a')).toEqual(['10-b.conflist']);
    expect(await write('a')).toEqual([]);
    expect(JSON.parse(await readFile(join(directory, '10-a.conflist'), 'utf8'))).toEqual(list('a'));
  });

  it('does not remove files of other programs, of other nodes, and changed files', async () => {
    await mkdir(directory);
    await writeFile(join(directory, '05-theirs.conflist'), '{}');
    await write('a', 'other');
    await write('b');
    await writeFile(join(directory, '10-b.conflist'), '{ "name": "mine now" }');
    expect(await write('c')).toEqual([]);
    expect(await networkConfigs()).toEqual(['05-theirs.conflist', '10-a.conflist', '10-b.conflist', '10-c.conflist']);
    expect(await conflistBefore(directory, '10-c.conflist')).toBe('05-theirs.conflist');
    // a changed file is not considered Oarlock's own again
    expect(await write('d')).toEqual(['10-c.conflist']);
    expect(await readFile(join(directory, '10-b.conflist'), 'utf8')).toContain('mine now');
  });

  it('is removed by a plugin without a conflist', async () => {
    const remove = (node: string) => removeConflists({ directory, dataDir: join(root, node, 'plugins', 'none') });
    expect(await remove('one')).toEqual([]);
    await write('a');
    await write('b', 'other');
    await writeFile(join(directory, '05-theirs.conflist'), '{}');
    expect(await remove('one')).toEqual(['10-a.conflist']);
    expect(await remove('one')).toEqual([]);
    expect(await networkConfigs()).toEqual(['05-theirs.conflist', '10-b.conflist']);
    await writeFile(join(directory, '10-b.conflist'), '{ "name": "mine now" }');
    expect(await remove('other')).toEqual([]);
    expect((await readdir(directory)).sort()).toEqual(['05-theirs.conflist', '10-b.conflist']);
  });

  it('removes nothing if its records are lost', async () => {
    await write('a');
    for (const text of ['{', '[]', '{"10-a.conflist": 7}', '{"../x.conflist": {"owner": "o", "digest": "d"}}']) {
      await writeFile(join(directory, ledgerFile), text);
      expect(await write('b'), text).toEqual([]);
      await rm(join(directory, '10-b.conflist'));
    }
    expect(await networkConfigs()).toEqual(['10-a.conflist']);
  });
});
