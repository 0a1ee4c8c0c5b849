import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Pod } from '@oarlock/api/types/core-v1';
import { NodePaths } from '../../src/config/node-paths.ts';
import { UserNamespaceManager } from '../../src/runtime/user-namespace-manager.ts';

const pod = (uid: string, hostUsers: boolean | undefined = false): Pod => ({
  metadata: { name: uid, namespace: 'default', uid },
  spec: { containers: [{ name: 'main' }], ...(hostUsers !== undefined && { hostUsers }) },
});

describe('UserNamespaceManager', () => {
  let root: string;
  let paths: NodePaths;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'oarlock-users-'));
    paths = new NodePaths(root);
  });
  afterEach(() => rm(root, { recursive: true }));
  const first = async (users: UserNamespaceManager, uid: string) => (await users.idMappings(pod(uid)))?.uids[0]?.hostId;

  it('maps nothing unless the pod has hostUsers: false', async () => {
    const users = new UserNamespaceManager(paths);
    expect(await users.idMappings(pod('a', true))).toBeUndefined();
    expect(await users.idMappings({ metadata: { uid: 'b' }, spec: { containers: [] } })).toBeUndefined();
  });

  it("allocates 65,536 ids per pod that are neither another pod's nor the node's", async () => {
    const users = new UserNamespaceManager(paths);
    const mapping = [{ hostId: 65_536, containerId: 0, length: 65_536 }];
    expect(await users.idMappings(pod('a'))).toEqual({ uids: mapping, gids: mapping });
    const [b, c, again] = await Promise.all([first(users, 'b'), first(users, 'c'), first(users, 'a')]);
    expect([b, c, again]).toEqual([131_072, 196_608, 65_536]);
  });

  it('keeps allocations over a restart and reuses those of deleted pods', async () => {
    const before = new UserNamespaceManager(paths);
    await first(before, 'a');
    await first(before, 'b');
    expect(JSON.parse(await readFile(join(paths.pod('b'), 'userns'), 'utf8'))).toMatchObject({ uidMappings: [{ hostId: 131_072 }] });
    const after = new UserNamespaceManager(paths);
    expect(await first(after, 'c')).toBe(196_608);
    expect(await first(after, 'b')).toBe(131_072);
    after.release('a');
    after.release('unknown');
    expect(await first(after, 'd')).toBe(65_536);
  });

  it('ignores files beside the directories of pods', async () => {
    await first(new UserNamespaceManager(paths), 'a');
    await writeFile(join(paths.pods, 'notes'), '');
    expect(await first(new UserNamespaceManager(paths), 'b')).toBe(131_072);
  });

  it('allocates no range while the stored ones cannot be read', async () => {
    const users = new UserNamespaceManager(paths);
    const unreadable = join(paths.pod('a'), 'userns');
    await mkdir(unreadable, { recursive: true });
    await expect(first(users, 'b')).rejects.toThrow('EISDIR');
    await rm(unreadable, { recursive: true });
    expect(await first(users, 'b')).toBe(65_536);
  });

  it('allocates a new range if the stored one is invalid', async () => {
    for (const [uid, text] of [
      ['a', 'no JSON'],
      ['b', '{}'],
      ['c', '{"uidMappings":[{"hostId":17}]}'],
    ] as const) {
      await mkdir(paths.pod(uid), { recursive: true });
      await writeFile(join(paths.pod(uid), 'userns'), text);
    }
    expect(await first(new UserNamespaceManager(paths), 'a')).toBe(65_536);
  });
});
