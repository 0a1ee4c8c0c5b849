import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadKubeconfig, parseKubeconfig } from '@oarlock/client/kubeconfig';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const base64 = (text: string) => Buffer.from(text).toString('base64');
const config = `
apiVersion: v1
kind: Config
current-context: inline
clusters:
- name: one
  cluster: { server: 'https://one:6443', certificate-authority-data: ${base64('CA')}, tls-server-name: kubernetes }
- name: two
  cluster: { server: 'https://two', certificate-authority: ca.pem }
- name: open
  cluster: { server: 'https://open', insecure-skip-tls-verify: true }
contexts:
- name: inline
  context: { cluster: one, user: cert, namespace: team }
- name: files
  context: { cluster: two, user: files }
- name: token
  context: { cluster: open, user: token }
- name: exec
  context: { cluster: one, user: exec }
- name: provider
  context: { cluster: one, user: provider }
- name: lost
  context: { cluster: none, user: cert }
- name: nobody
  context: { cluster: one, user: none }
- name: anonymous
  context: { cluster: one }
users:
- name: cert
  user: { client-certificate-data: ${base64('CERT')}, client-key-data: ${base64('KEY')} }
- name: files
  user: { client-certificate: cert.pem, client-key: key.pem, token: old, tokenFile: token }
- name: token
  user: { token: t0 }
- name: exec
  user: { exec: { command: aws } }
- name: provider
  user: { auth-provider: { name: oidc } }
`;

describe('kubeconfig', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'oarlock-kubeconfig-'));
    for (const [name, text] of [
      ['config', config],
      ['ca.pem', 'CA FILE'],
      ['cert.pem', 'CERT FILE'],
      ['key.pem', 'KEY FILE'],
    ] as const)
      await writeFile(join(folder, name), text);
  });
  afterAll(() => rm(folder, { recursive: true }));
  const load = (context?: string) => loadKubeconfig(join(folder, 'config'), context === undefined ? {} : { context });

  it('loads the current context with inline data', async () => {
    expect(await load()).toEqual({
      context: 'inline',
      namespace: 'team',
      options: { server: 'https://one:6443', ca: 'CA', cert: 'CERT', key: 'KEY', tlsServerName: 'kubernetes' },
    });
  });

  it('loads another context, with files relative to its directory', async () => {
    expect(await load('files')).toEqual({
      context: 'files',
      namespace: 'default',
      options: { server: 'https://two', ca: 'CA FILE', cert: 'CERT FILE', key: 'KEY FILE', tokenFile: join(folder, 'token') },
    });
    expect((await load('token')).options).toEqual({ server: 'https://open', insecureSkipTlsVerify: true, token: 't0' });
    expect((await load('anonymous')).options).toMatchObject({ server: 'https://one:6443' });
  });

  it('reports missing, unreadable and unsupported settings', async () => {
    await expect(load('none')).rejects.toMatchObject({ code: 'NoContext', message: 'the kubeconfig has no context "none"' });
    await expect(load('lost')).rejects.toMatchObject({ code: 'NoCluster' });
    await expect(load('nobody')).rejects.toMatchObject({ code: 'NoUser' });
    await expect(load('exec')).rejects.toMatchObject({ code: 'Malformed', message: "the kubeconfig's exec.apiVersion: Required value" });
    await expect(load('provider')).rejects.toMatchObject({
      code: 'Unsupported',
      message: expect.stringContaining('auth-provider') as string,
    });
    await expect(loadKubeconfig(join(folder, 'absent'))).rejects.toMatchObject({ code: 'Unreadable' });
    await expect(parseKubeconfig('kind: Pod', { folder })).rejects.toMatchObject({ code: 'Malformed' });
    await expect(parseKubeconfig('{', { folder })).rejects.toMatchObject({ code: 'Malformed' });
    await expect(parseKubeconfig('kind: Config', { folder })).rejects.toMatchObject({ code: 'NoContext' });
    await expect(parseKubeconfig(config, { folder: join(folder, 'elsewhere'), context: 'files' })).rejects.toMatchObject({
      code: 'Unreadable',
    });
  });
});
