import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Pod } from '@oarlock/api/types/core-v1';
import { NodePaths } from '../src/node-paths.ts';
import { UserNamespaces } from '../src/user-namespaces.ts';

const pod = (uid: string, hostUsers: boolean | undefined = false): Pod => ({
  metadata: { name: uid, namespace: 'default', uid },
  spec: { containers: [{ name: 'main' }], ...(hostUsers !== undefined && { hostUsers }) },
});

describe('users of pods', () => {
  let root: string;
  let paths: NodePaths;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'oarlock-users-'));
    paths = new NodePaths(root);
  });
  afterEach(() => rm(root, { recursive: true }));
  const first = async (users: UserNamespaces, uid: string) => (await users.of(pod(uid)))?.uids[0]?.hostId;

  it("are the node's own unless the pod says otherwise", async () => {
    const users = new UserNamespaces(paths);
    expect(await users.of(pod('a', true))).toBeUndefined();
    expect(await users.of({ metadata: { uid: 'b' }, spec: { containers: [] } })).toBeUndefined();
  });

  it("are different for each pod, 65,536 of them, and none is the node's own", async () => {
    const users = new UserNamespaces(paths);
    const mapping = [{ hostId: 65_536, containerId: 0, length: 65_536 }];
    expect(await users.of(pod('a'))).toEqual({ uids: mapping, gids: mapping });
    const [b, c, again] = await Promise.all([first(users, 'b'), first(users, 'c'), first(users, 'a')]);
    expect([b, c, again]).toEqual([131_072, 196_608, 65_536]);
  });

  it('stay when the kubelet starts again, and are given to others when the pod is gone', async () => {
    const before = new UserNamespaces(paths);
    await first(before, 'a');
    await first(before, 'b');
    expect(JSON.parse(await readFile(join(paths.pod('b'), 'userns'), 'utf8'))).toMatchObject({ uidMappings: [{ hostId: 131_072 }] });
    const after = new UserNamespaces(paths);
    expect(await first(after, 'c')).toBe(196_608);
    expect(await first(after, 'b')).toBe(131_072);
    after.release('a');
    after.release('unknown');
    expect(await first(after, 'd')).toBe(65_536);
  });

  it('are new where what was kept cannot be read', async () => {
    for (const [uid, text] of [
      ['a', 'no JSON'],
      ['b', '{}'],
      ['c', '{"uidMappings":[{"hostId":17}]}'],
    ] as const) {
      await mkdir(paths.pod(uid), { recursive: true });
      await writeFile(join(paths.pod(uid), 'userns'), text);
    }
    expect(await first(new UserNamespaces(paths), 'a')).toBe(65_536);
  });
});
