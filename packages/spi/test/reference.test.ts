import type { AuditEvent } from '@oarlock/spi/audit';
import { auditContract } from '@oarlock/spi/audit.contract';
import { dnsContract } from '@oarlock/spi/dns.contract';
import { BufferedSink } from './reference/audit-sink.ts';
import { ReferenceDns } from './reference/dns-server.ts';
import { upstream } from './reference/dns-upstream.ts';

// slots that no plugin fills yet: the suites hold for implementations that are as small as can be

auditContract('a buffered sink', () => {
  const kept: AuditEvent[] = [];
  let gate: Promise<void> | undefined;
  let open = () => {};
  const sink = new BufferedSink(500, async (events) => {
    await gate;
    kept.push(...events);
  });
  return {
    sink,
    bound: 500,
    dropped: () => sink.dropped,
    stop: () => sink.stop(),
    async kept() {
      await sink.flush();
      return kept;
    },
    stall() {
      gate = new Promise((resolve) => {
        open = resolve;
      });
    },
    resume() {
      gate = undefined;
      open();
    },
  };
});

dnsContract('a small server', async () => {
  const outside = await upstream();
  const server = new ReferenceDns(outside.port);
  await server.start();
  return {
    server,
    endpoint: { ip: server.address, port: server.port },
    upstream: outside,
    async dispose() {
      await server.stop();
      await outside.stop();
    },
  };
});
