import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { CertificateMonitor, type TrackedCertificate } from '../../src/pki/certificate-monitor.ts';
import { selfSigned } from '../../src/pki/certificate-writer.ts';
import { issuePair, newKey } from '../../src/pki/key-pair.ts';

const [hourMs, dayMs] = [3_600_000, 86_400_000];
const ca = selfSigned('test-ca', newKey());
const leaf = (days: number): TrackedCertificate => ({
  name: 'kube-apiserver',
  certificate: issuePair(ca, { commonName: 'kube-apiserver', usages: ['server'], days }).certificate,
});

/** Creates a monitor of a certificate that the test replaces, and a clock some days after it was issued. */
function monitored(first: TrackedCertificate, { days }: { readonly days: number } = { days: 0 }) {
  const clock = new FakeClock({ start: Date.now() + days * dayMs });
  const warnings: string[] = [];
  const state = { certificates: [first] };
  const monitor = new CertificateMonitor({
    certificates: () => Promise.resolve(state.certificates),
    warn: (reason, message) => warnings.push(`${reason} ${message.replace(/ at \S+Z/, '')}`),
    clock,
    log: silentLogger,
  });
  return { clock, warnings, state, monitor };
}

const failing = 'the certificate kube-apiserver expires: its renewal fails; the log of the process contains the cause';

describe('CertificateMonitor', () => {
  it('warns every hour from 30 days before the end, and after the end', async () => {
    const { clock, warnings, monitor } = monitored(leaf(365), { days: 334 });
    await monitor.start();
    await clock.advance(dayMs - hourMs);
    expect(warnings).toEqual([]);
    await clock.advance(2 * hourMs);
    expect(warnings[0]).toBe(`CertificateExpiring ${failing}`);
    await clock.advance(30 * dayMs);
    expect(warnings.at(-1)).toBe(`CertificateExpired ${failing.replace('expires', 'has expired')}`);
    await monitor.stop();
    expect(clock.pending).toBe(0);
  });

  it('does not warn of a certificate that was renewed in time', async () => {
    const { clock, warnings, state, monitor } = monitored(leaf(100), { days: 75 });
    await monitor.start();
    await clock.advance(5 * dayMs);
    state.certificates = [leaf(300)];
    await clock.advance(30 * dayMs);
    expect(warnings).toEqual([]);
    await monitor.stop();
  });

  it('checks certificates with a short lifetime more often, and warns when 15 % of it are left', async () => {
    const { clock, warnings, monitor } = monitored(leaf(20 / 1440));
    await monitor.start();
    await clock.advance(15 * 60_000);
    expect(warnings).toEqual([]);
    await clock.advance(2 * 60_000);
    expect(warnings[0]).toBe(`CertificateExpiring ${failing}`);
    await monitor.stop();
  });

  it('warns of a CA half a year before its end', async () => {
    const { clock, warnings, monitor } = monitored({ name: 'ca', certificate: ca.certificate }, { days: 3465 });
    await monitor.start();
    await clock.advance(4 * dayMs);
    expect(warnings).toEqual([]);
    await clock.advance(2 * dayMs);
    expect(warnings[0]).toBe('CertificateExpiring the certificate ca expires: replace the CA in the steps of `oarlock keys`');
    await monitor.stop();
  });

  it("exports upstream's metrics of a kubelet", async () => {
    const { monitor, clock } = monitored({ ...leaf(10), name: 'kubelet-client' });
    monitor.addKubeletMetrics(() => 3);
    await monitor.start();
    await clock.advance(9 * dayMs);
    const text = await monitor.metrics.metrics();
    const [, seconds] = /kubelet_certificate_manager_client_ttl_seconds ([\d.]+)/.exec(text) ?? [];
    expect(Math.abs(Number(seconds) - 86_400)).toBeLessThan(3600);
    expect(text).toContain('kubelet_certificate_manager_server_ttl_seconds +Inf\n');
    expect(text).toContain('kubelet_certificate_manager_client_expiration_renew_errors 3\n');
    await monitor.stop();
  });

  it('exports the end of each certificate', async () => {
    const { monitor } = monitored(leaf(10));
    await monitor.start();
    const text = await monitor.metrics.metrics();
    const [, seconds] = /oarlock_certificate_expiration_timestamp_seconds\{certificate="kube-apiserver"\} (\d+)/.exec(text) ?? [];
    expect(Math.abs(Number(seconds) - (Date.now() + 10 * dayMs) / 1000)).toBeLessThan(3600);
    await monitor.stop();
  });
});
