import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { etcdVersion, memberArguments, type MemberSettings } from '../../src/managed/member-program.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-etcd-program-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

async function program(output: string): Promise<string> {
  const file = join(directory, `etcd-${output.replaceAll(/\W/g, '')}`);
  await writeFile(file, `#!/bin/sh\necho '${output}'\n`);
  await chmod(file, 0o755);
  return file;
}

describe('etcdVersion', () => {
  it.each([
    ['etcd Version: 3.4.23', 4],
    ['etcd Version: 3.5.16', 5],
    ['etcd Version: 3.6.0-rc.1', 6],
  ])('reads "%s"', async (output, minor) => {
    expect(await etcdVersion(await program(output), systemClock)).toMatchObject({ minor });
  });

  it('rejects a version without learners', async () => {
    await expect(etcdVersion(await program('etcd Version: 3.3.25'), systemClock)).rejects.toThrow('is etcd 3.3.25: 3.4 or later is needed');
  });

  it('names the package if there is no program', async () => {
    await expect(etcdVersion(join(directory, 'none'), systemClock)).rejects.toThrow('cannot be run (Debian: etcd-server)');
  });
});

describe('memberArguments', () => {
  const pair = { certFile: '/pki/a.crt', keyFile: '/pki/a.key' };
  const settings: MemberSettings = {
    ...{ name: 'a', dataDir: '/data', clientUrl: 'https://10.0.0.1:2379', peerUrl: 'https://10.0.0.1:2380' },
    ...{ quotaBytes: 1, maxRequestBytes: 2, tls: { caFile: '/pki/ca.crt', server: pair, peer: pair } },
  };

  it('requires certificates of clients and peers', () => {
    const args = memberArguments(settings, { text: '3.4.23', minor: 4 }, undefined);
    expect(args).toEqual(expect.arrayContaining(['--client-cert-auth', '--peer-client-cert-auth', '--trusted-ca-file=/pki/ca.crt']));
    expect(args.filter((each) => each.startsWith('--initial-cluster'))).toEqual([]);
  });

  it.each([
    [4, '--experimental-initial-corrupt-check'],
    [5, '--experimental-initial-corrupt-check'],
    [6, '--feature-gates=InitialCorruptCheck=true'],
  ])('checks the data at the start with the option of etcd 3.%i', (minor, option) => {
    expect(memberArguments(settings, { text: `3.${minor}.0`, minor }, undefined)).toContain(option);
  });

  it('names the members of the cluster at the first start', () => {
    const initial = { members: ['a=https://10.0.0.1:2380', 'b=https://10.0.0.2:2380'], state: 'existing', token: 't' } as const;
    expect(memberArguments(settings, { text: '3.5.0', minor: 5 }, initial)).toEqual(
      expect.arrayContaining(['--initial-cluster=a=https://10.0.0.1:2380,b=https://10.0.0.2:2380', '--initial-cluster-state=existing']),
    );
  });
});
