import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConflistClaim } from '../../src/cni/conflist-claim.ts';
import { writeConflist } from '../../src/cni/conflist.ts';

const run = promisify(execFile);
/** A program that claims as an earlier process did, and is then killed. */
const listener =
  'require("net").createServer((socket) => socket.end("owner\\nkilled")).listen(process.argv[1], () => console.log("listening"))';
const reader = 'require("net").connect(process.argv[1]).on("data", (data) => console.log(String(data)))';
const isRoot = process.platform === 'linux' && process.getuid?.() === 0;

describe.skipIf(process.platform !== 'linux')('the claim of a directory of conflists', () => {
  let root: string;
  let directory: string;
  const claims: ConflistClaim[] = [];
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'conflist-claim-'));
    // longer than the path of a socket may be
    directory = join(root, 'd'.repeat(120), 'net.d');
  });
  afterEach(async () => {
    for (const claim of claims.splice(0)) await claim.release();
    await rm(root, { recursive: true, force: true });
  });

  const conflist = (node: string) => ({ directory, file: '10-a.conflist', dataDir: join(root, node, 'plugins', 'network-bridge') });
  const take = async (node: string) => {
    const claim = await ConflistClaim.take(conflist(node));
    claims.push(claim);
    return claim;
  };

  it('rejects another node with the file and the data directory of the owner, until its process ends', async () => {
    const claim = await take('one');
    await writeConflist(conflist('one'), { cniVersion: '1.0.0', name: 'a', plugins: [{ type: 'bridge' }] });
    await expect(take('two')).rejects.toThrow(
      `the CNI configuration ${join(directory, '10-a.conflist')} belongs to another cluster, whose plugins keep their data in ${join(root, 'one', 'plugins')}: `,
    );
    await claim.release();
    claims.length = 0;
    expect((await readdir(directory)).sort()).toEqual(['.oarlock-written', '10-a.conflist']);
    expect(await take('two')).toBeDefined();
  });

  it('is shared by instances of the same node, as during a reload of the plugin', async () => {
    const former = await take('one');
    await take('one');
    await former.release();
    claims.shift();
    await expect(take('two')).rejects.toThrow('belongs to another cluster');
  });

  it('replaces that of a process that was killed, by one of several at the same time', async () => {
    directory = join(root, 'net.d');
    await mkdir(directory);
    const child = spawn(process.execPath, ['-e', listener, join(directory, '.oarlock-owner-0')], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    await expect(take('two')).rejects.toThrow('whose plugins keep their data in killed');
    child.kill('SIGKILL');
    await once(child, 'exit');
    for (let attempt = 0; attempt < 20; attempt += 1) {
      const outcomes = await Promise.allSettled(['two', 'three', 'four', 'five'].map(take));
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
      expect((await readdir(directory)).filter((name) => name !== '.oarlock-owner-0')).toHaveLength(1);
      for (const claim of claims.splice(0)) await claim.release();
    }
    expect(await readdir(directory)).toEqual([]);
  });

  it.skipIf(!isRoot)('is seen in another network namespace', async () => {
    directory = join(root, 'net.d');
    await take('one');
    const [name = ''] = await readdir(directory);
    const { stdout } = await run('unshare', ['--net', process.execPath, '-e', reader, join(directory, name)]);
    expect(stdout).toBe(`owner\n${join(root, 'one', 'plugins')}\n`);
  });
});
