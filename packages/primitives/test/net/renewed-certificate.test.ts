import { RenewedCertificate, type CertificatePair } from '@oarlock/primitives/net/renewed-certificate';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';

const dayMs = 86_400_000;
/** A self-signed certificate that is valid from 2026-01-01, the start of the test's clock, for ten days. */
const certificate = `-----BEGIN CERTIFICATE-----
MIIBbDCCAROgAwIBAgIUP9S6bAZpNI73zLUIHMKMUITTL6swCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBdDAeFw0yNjAxMDEwMDAwMDBaFw0yNjAxMTEwMDAwMDBaMAwx
CjAIBgNVBAMMAXQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASy7pFKezzg17RO
LqX3aIDBztq95dc6hkT3RCalwRL0P7nUzn8LMqCrioCjumn1O2tcNXMxvuNuV7IZ
cgpJdtMwo1MwUTAdBgNVHQ4EFgQUD0Eitj4tbeCtfft7IXRyo1oyDGMwHwYDVR0j
BBgwFoAUD0Eitj4tbeCtfft7IXRyo1oyDGMwDwYDVR0TAQH/BAUwAwEB/zAKBggq
hkjOPQQDAgNHADBEAiAQ0TuBBi32ic0K574MRap43Ko9gEJWbzYTjS5UMEcJ3QIg
U032OHMaPlL3B0VpG95UPO5hIJqNf+MYiCrMA39DoEw=
-----END CERTIFICATE-----
`;

describe('RenewedCertificate', () => {
  it('is renewed when a fifth of its lifetime is left, and again a minute after a failure', async () => {
    const clock = new FakeClock();
    const renewed: CertificatePair[] = [];
    const failures: unknown[] = [];
    let issued = 0;
    const current = new RenewedCertificate({
      issue: () => {
        issued += 1;
        return issued === 2 ? Promise.reject(new Error('not now')) : Promise.resolve({ certificate, key: `key ${issued}` });
      },
      onRenew: (pair) => {
        renewed.push(pair);
      },
      onFailure: (error) => failures.push(error),
      clock,
    });
    expect((await current.start()).key).toBe('key 1');
    await clock.advance(8 * dayMs - 1);
    expect(issued).toBe(1);
    await clock.advance(1);
    expect([renewed.length, failures.length]).toEqual([0, 1]);
    await clock.advance(60_000);
    expect(renewed.map(({ key }) => key)).toEqual(['key 3']);
    current.stop();
    expect(clock.pending).toBe(0);
  });

  it('tries again if the certificate cannot be used', async () => {
    const clock = new FakeClock();
    const failures: unknown[] = [];
    let used = 0;
    const current = new RenewedCertificate({
      issue: () => Promise.resolve({ certificate, key: 'key' }),
      onRenew: () => {
        used += 1;
        if (used === 1) throw new Error('the disk is full');
      },
      onFailure: (error) => failures.push(error),
      clock,
    });
    await current.start();
    await clock.advance(8 * dayMs + 60_000);
    expect([used, failures.length]).toEqual([2, 1]);
    current.stop();
  });

  it('reports that the first certificate cannot be issued', async () => {
    const current = new RenewedCertificate({
      issue: () => Promise.reject(new Error('no CA')),
      onRenew: () => undefined,
      onFailure: () => undefined,
      clock: new FakeClock(),
    });
    await expect(current.start()).rejects.toThrow('no CA');
  });
});
