import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { currentProcess } from '@oarlock/primitives/os/process-lock';
import { kubeconfig } from '@oarlock/cluster/pki/kubeconfig';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { adminAccess } from '../../src/common/admin-access.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'oarlock-admin-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

describe('adminAccess', () => {
  it('fails if no cluster has run in the data directory', async () => {
    await expect(adminAccess(dir)).rejects.toThrow(`no cluster has run in ${dir}: start one with \`oarlock up\``);
  });

  it('names the API server if the data directory is that of a node', async () => {
    const state = { ...(await currentProcess()), server: 'https://10.0.0.1:6443', roles: ['kubelet'], ready: true };
    await writeFile(join(dir, 'process.json'), JSON.stringify(state));
    await expect(adminAccess(dir)).rejects.toThrow(/runs kubelet only: run the command where the API server runs, https:\/\/10.0.0.1:6443/);
  });

  it('fails if the cluster is not running', async () => {
    // a port without a listener
    const user = { certificate: '', key: '' };
    const text = kubeconfig({ cluster: 'c', server: 'https://127.0.0.1:1', ca: '', user: 'admin', client: user });
    await writeFile(join(dir, 'admin.kubeconfig'), text);
    await expect(adminAccess(dir)).rejects.toThrow(`no cluster is running in ${dir}: start it with \`oarlock up --data-dir ${dir}\``);
    // a server of a cluster with several, of which others may run
    await mkdir(join(dir, 'pki'));
    await writeFile(join(dir, 'pki', 'cluster.key'), '');
    const others = `the server of ${dir} is not running: run the command on another server of the cluster, or start this one with`;
    await expect(adminAccess(dir)).rejects.toThrow(`${others} \`oarlock up -f FILE --data-dir ${dir}\``);
    await writeFile(join(dir, 'cluster.yaml'), '');
    await expect(adminAccess(dir)).rejects.toThrow(`${others} \`oarlock server join --data-dir ${dir}\``);
  });
});
