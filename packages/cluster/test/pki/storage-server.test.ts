import { X509Certificate } from 'node:crypto';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readKeyFiles, removeKeyFiles } from '../../src/servers/key-files.ts';
import { ProcessStorageServer } from '../../src/pki/storage-server.ts';
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
