import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { conflistBefore, ledgerFile, removeConflists, writeConflist } from '../../src/cni/conflist.ts';

const list = (name: string) => ({ cniVersion: '1.0.0', name, plugins: [{ type: name }] });

describe('the file that runtimes read', () => {
  let root: string;
  let directory: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'conflist-'));
    directory = join(root, 'net.d');
  });
  afterEach(() => rm(root, { recursive: true, force: true }));

  const write = (plugin: string, node = 'one') =>
    writeConflist({ directory, file: `10-${plugin}.conflist`, dataDir: join(root, node, 'plugins', plugin) }, list(plugin));
  /** As libcni chooses: by what names end in, whatever they begin with. */
  const shown = async () => (await readdir(directory)).filter((name) => /\.(conf|conflist|json)$/.test(name)).sort();

  it('is the only one of its node, whichever plugin was configured before', async () => {
    expect(await write('a')).toEqual([]);
    expect(await write('b')).toEqual(['10-a.conflist']);
    expect(await shown()).toEqual(['10-b.conflist']);
    expect(await conflistBefore(directory, '10-b.conflist')).toBeUndefined();
    expect(await write('a')).toEqual(['10-b.conflist']);
    expect(await write('a')).toEqual([]);
    expect(JSON.parse(await readFile(join(directory, '10-a.conflist'), 'utf8'))).toEqual(list('a'));
  });

  it('leaves those of others, of other nodes, and one that somebody has changed', async () => {
    await mkdir(directory);
    await writeFile(join(directory, '05-theirs.conflist'), '{}');
    await write('a', 'other');
    await write('b');
    await writeFile(join(directory, '10-b.conflist'), '{ "name": "mine now" }');
    expect(await write('c')).toEqual([]);
    expect(await shown()).toEqual(['05-theirs.conflist', '10-a.conflist', '10-b.conflist', '10-c.conflist']);
    expect(await conflistBefore(directory, '10-c.conflist')).toBe('05-theirs.conflist');
    // it is not taken for ours again
    expect(await write('d')).toEqual(['10-c.conflist']);
    expect(await readFile(join(directory, '10-b.conflist'), 'utf8')).toContain('mine now');
  });

  it('goes with a plugin that has none', async () => {
    const remove = (node: string) => removeConflists({ directory, dataDir: join(root, node, 'plugins', 'none') });
    expect(await remove('one')).toEqual([]);
    await write('a');
    await write('b', 'other');
    await writeFile(join(directory, '05-theirs.conflist'), '{}');
    expect(await remove('one')).toEqual(['10-a.conflist']);
    expect(await remove('one')).toEqual([]);
    expect(await shown()).toEqual(['05-theirs.conflist', '10-b.conflist']);
    await writeFile(join(directory, '10-b.conflist'), '{ "name": "mine now" }');
    expect(await remove('other')).toEqual([]);
    expect((await readdir(directory)).sort()).toEqual(['05-theirs.conflist', '10-b.conflist']);
  });

  it('takes nothing away where what was written is not known', async () => {
    await write('a');
    for (const text of ['{', '[]', '{"10-a.conflist": 7}', '{"../x.conflist": {"owner": "o", "digest": "d"}}']) {
      await writeFile(join(directory, ledgerFile), text);
      expect(await write('b'), text).toEqual([]);
      await rm(join(directory, '10-b.conflist'));
    }
    expect(await shown()).toEqual(['10-a.conflist']);
  });
});
