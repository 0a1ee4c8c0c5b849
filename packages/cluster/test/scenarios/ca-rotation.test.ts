import { X509Certificate } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openKeys, readKeys, rotateAuthority } from '@oarlock/cluster/pki/keys';
import type { CertificateRequest } from '@oarlock/spi/cluster';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let pki: string;
beforeEach(async () => {
  pki = await mkdtemp(join(tmpdir(), 'authorities-'));
});
afterEach(() => rm(pki, { recursive: true }));

const open = async () => (await openKeys(pki, 'https://issuer.example')).keys;
const file = (name: string) => readFile(join(pki, name), 'utf8');
const authorityFiles = async () => (await readdir(pki)).filter((name) => name.startsWith('ca') && name !== 'ca-removed.crt').sort();
const request: CertificateRequest = { commonName: 'ada', usages: ['client'] };
const isFrom = (certificate: string, ca: string) => new X509Certificate(certificate).verify(new X509Certificate(ca).publicKey);

describe('a CA rotation', () => {
  it('trusts the next CA, then signs with it, then removes the former one', async () => {
    const before = await open();
    const old = await before.issue(request);
    await rotateAuthority(pki, 'add');
    const [former, next] = [await file('ca.crt'), await file('ca-next.crt')];
    const added = await open();
    expect(added.caBundle).toBe(former + next);
    expect(await added.issue(request)).toEqual(old);
    expect(new X509Certificate(next).subject).not.toBe(new X509Certificate(former).subject);

    await rotateAuthority(pki, 'use');
    const used = await open();
    expect(used.caBundle).toBe(next + former);
    const { certificate } = await used.issue(request);
    expect([isFrom(certificate, next), isFrom(certificate, former)]).toEqual([true, false]);
    expect((await readKeys(pki, '')).caBundle).toBe(used.caBundle);

    await rotateAuthority(pki, 'end');
    const { caBundle, removedCaBundle } = await open();
    expect([caBundle, removedCaBundle]).toEqual([next, former]);
    expect(await authorityFiles()).toEqual(['ca.crt', 'ca.key']);
    for (const name of await authorityFiles()) expect((await stat(join(pki, name))).mode & 0o777, name).toBe(0o600);
  });

  it('rejects steps out of order without changes', async () => {
    await expect(rotateAuthority(pki, 'add')).rejects.toThrow('has no CA ca.crt: the API server creates it when it starts');
    await open();
    await expect(rotateAuthority(pki, 'use')).rejects.toThrow('there is no next CA: `oarlock keys ca add` creates one');
    await expect(rotateAuthority(pki, 'end')).rejects.toThrow('there is no former CA');
    await rotateAuthority(pki, 'add');
    await expect(rotateAuthority(pki, 'end')).rejects.toThrow('the next CA does not sign yet');
    await rotateAuthority(pki, 'use');
    await expect(rotateAuthority(pki, 'add')).rejects.toThrow('the former CA is still trusted');
    expect(await authorityFiles()).toEqual(['ca-former.crt', 'ca-former.key', 'ca.crt', 'ca.key']);
  });

  it.each(['ca', 'front-proxy-ca'] as const)('changes nothing when a step of %s is repeated', async (name) => {
    await open();
    const state = async () =>
      Promise.all((await readdir(pki)).sort().map(async (each) => [each, await file(each).catch(() => 'a folder')]));
    for (const step of ['add', 'use', 'end'] as const) {
      await rotateAuthority(pki, step, name);
      const stateAfterStep = await state();
      await rotateAuthority(pki, step, name);
      expect(await state(), step).toEqual(stateAfterStep);
    }
  });

  it('completes a step that was interrupted between the two files of a key pair', async () => {
    await open();
    for (const [step, removed] of [
      ['use', 'ca-next.key'],
      ['end', 'ca-former.key'],
    ] as const) {
      if (step === 'use') await rotateAuthority(pki, 'add');
      const key = await file(removed);
      await rotateAuthority(pki, step);
      await writeFile(join(pki, removed), key);
      await rotateAuthority(pki, step);
      expect(await authorityFiles()).not.toContain(removed);
    }
  });

  it('reports an interrupted step, and completes it when it is repeated', async () => {
    const { caBundle } = await open();
    await rotateAuthority(pki, 'add');
    const next = await file('ca-next.crt');
    // the state after `use` was interrupted between two files
    await writeFile(join(pki, 'ca-former.key'), await file('ca.key'));
    await writeFile(join(pki, 'ca-former.crt'), caBundle);
    await writeFile(join(pki, 'ca.key'), await file('ca-next.key'));
    await expect(open()).rejects.toThrow('`oarlock keys ca use` was interrupted, run it again');
    await rotateAuthority(pki, 'use');
    expect((await open()).caBundle).toBe(next + caBundle);
  });
});
