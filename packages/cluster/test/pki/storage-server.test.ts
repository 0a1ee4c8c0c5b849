import { X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readKeyFiles, removeKeyFiles, writeKeyFiles, writeOrder } from '../../src/servers/key-files.ts';
import { certificatesOf } from '../../src/pki/ca-hash.ts';
import { ProcessStorageServer, rotateStorageAuthority } from '../../src/pki/storage-server.ts';
import { planWith, sharedStorage } from '../servers/shared-storage.ts';

let directory: string;
let server: ProcessStorageServer;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'storage-server-'));
  server = new ProcessStorageServer(await planWith(sharedStorage(), { spec: { server: { address: '10.0.0.1' } } }), directory);
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const request = (address: string) => ({
  commonName: 'server-a',
  ipAddresses: [address],
  dnsNames: ['server-a'],
  usages: ['server', 'client'] as const,
});

describe('the CA of the members', () => {
  it('is created once, is one of the shared key files and is not removed with them', async () => {
    const { caFile } = await server.openAuthority();
    const ca = await readFile(caFile, 'utf8');
    expect((await stat(join(directory, 'pki/etcd/ca.key'))).mode & 0o777).toBe(0o600);
    await server.openAuthority();
    expect(await readFile(caFile, 'utf8')).toBe(ca);
    expect(Object.keys(await readKeyFiles(directory))).toEqual(['pki/etcd/ca.crt', 'pki/etcd/ca.key']);
    await removeKeyFiles(directory);
    expect(await readFile(caFile, 'utf8')).toBe(ca);
  });

  it('issues certificates, and again only for other names', async () => {
    const { caFile, issue } = await server.openAuthority();
    const { certFile, keyFile } = await issue('server', request('10.0.0.1'));
    const first = await readFile(certFile, 'utf8');
    expect(new X509Certificate(first).verify(new X509Certificate(await readFile(caFile)).publicKey)).toBe(true);
    expect((await stat(keyFile)).mode & 0o777).toBe(0o600);
    await issue('server', request('10.0.0.1'));
    expect(await readFile(certFile, 'utf8')).toBe(first);
    await issue('server', request('10.0.0.2'));
    expect(new X509Certificate(await readFile(certFile)).checkIP('10.0.0.2')).toBe('10.0.0.2');
  });
});

describe('a rotation of the CA of the members', () => {
  const serving = async () => {
    const authority = await server.openAuthority();
    const { certFile } = await authority.issue('server', request('10.0.0.1'));
    return { ...authority, certificate: new X509Certificate(await readFile(certFile)), trusted: await readFile(authority.caFile, 'utf8') };
  };
  const rotate = (step: 'add' | 'use' | 'end') => rotateStorageAuthority(join(directory, 'pki/etcd'), step);

  it('trusts both CAs, then issues new certificates, then trusts the next one alone', async () => {
    const before = await serving();
    await rotate('add');
    const added = await serving();
    expect([added.certificate.raw.equals(before.certificate.raw), added.signing]).toEqual([true, before.signing]);
    expect(certificatesOf(added.trusted)).toHaveLength(2);
    await rotate('use');
    const used = await serving();
    expect(used.certificate.verify(new X509Certificate(used.signing).publicKey)).toBe(true);
    // the order does not depend on the signing CA: a program that has loaded the file need not be restarted
    expect([used.signing === before.signing, used.trusted]).toEqual([false, added.trusted]);
    await rotate('end');
    expect((await serving()).trusted.trim()).toBe(used.signing.trim());
    await expect(rotate('use')).rejects.toThrow('there is no next CA: `oarlock keys etcd-ca add` creates one');
  });

  it('opens the CA when any number of the files of `use` was written', async () => {
    await serving();
    await rotate('add');
    const before = await readKeyFiles(directory);
    await rotate('use');
    const after = await readKeyFiles(directory);
    const changed = writeOrder(Object.keys(after).filter((path) => before[path] !== after[path]));
    expect(changed.map((path) => basename(path))).toEqual(['ca-former.key', 'ca-former.crt', 'ca.key', 'ca.crt']);
    for (let count = 0; count <= changed.length; count += 1) {
      await rm(join(directory, 'pki/etcd'), { recursive: true });
      const writtenFiles = Object.fromEntries(changed.slice(0, count).map((path) => [path, after[path] ?? '']));
      await writeKeyFiles(directory, { ...before, ...writtenFiles });
      const { trusted, signing, certificate } = await serving();
      expect(certificatesOf(trusted), `after ${count} files`).toHaveLength(2);
      expect(certificate.verify(new X509Certificate(signing).publicKey)).toBe(true);
      expect(signing).toBe((count < 3 ? before : after)['pki/etcd/ca.crt']);
      await writeKeyFiles(directory, after);
      expect(await readKeyFiles(directory)).toEqual(after);
    }
  });
});

describe('the program of the storage', () => {
  it('is started once and stopped with the process', async () => {
    let [starts, stops] = [0, 0];
    const start = async () => {
      starts += 1;
      return {
        stop: async () => {
          stops += 1;
        },
      };
    };
    expect(await server.run(start)).toBe(await server.run(start));
    await server.stop();
    await server.stop();
    expect([starts, stops]).toEqual([1, 1]);
  });

  it('can be started again after a failure', async () => {
    await expect(server.run(async () => Promise.reject(new Error('no etcd')))).rejects.toThrow('no etcd');
    await server.run(async () => ({ stop: async () => {} }));
    await server.stop();
  });

  it('has the name and address of the server', () => {
    expect([server.name, server.address, server.cluster]).toEqual(['server-a', '10.0.0.1', 'tested']);
  });
});
