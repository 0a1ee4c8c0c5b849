import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { thisProcess } from '@oarlock/kernel/process-lock';
import { kubeconfig } from '@oarlock/cluster/kubeconfig';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { adminAccess } from '../src/admin-access.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'oarlock-admin-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

describe('a command that asks a cluster', () => {
  it('says that there is none', async () => {
    await expect(adminAccess(dir)).rejects.toThrow(`no cluster has run in ${dir}: \`oarlock up\` starts one`);
  });

  it('says where to ask when the directory is that of a node', async () => {
    const state = { ...(await thisProcess()), server: 'https://10.0.0.1:6443', roles: ['kubelet'], ready: true };
    await writeFile(join(dir, 'process.json'), JSON.stringify(state));
    await expect(adminAccess(dir)).rejects.toThrow(/runs kubelet: ask where its API server runs, https:\/\/10.0.0.1:6443/);
  });

  it('says that it does not run', async () => {
    // a port that nobody listens at
    const user = { certificate: '', key: '' };
    const text = kubeconfig({ cluster: 'c', server: 'https://127.0.0.1:1', ca: '', user: 'admin', client: user });
    await writeFile(join(dir, 'admin.kubeconfig'), text);
    await expect(adminAccess(dir)).rejects.toThrow(`nothing runs in ${dir}: \`oarlock up --data-dir ${dir}\` starts it again`);
  });
});
