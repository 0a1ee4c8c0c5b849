import type { AuditEvent } from '@oarlock/spi/audit';
import { auditContract } from '@oarlock/spi/audit/contract';
import { dnsContract } from '@oarlock/spi/dns/contract';
import { BufferedSink } from '../support/reference/audit-sink.ts';
import { ReferenceDns } from '../support/reference/dns-server.ts';
import { upstream } from '../support/reference/dns-upstream.ts';

// minimal implementations for slots that no built-in plugin fills: they must pass the suites

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
    capacity: 500,
    dropped: () => sink.dropped,
    stop: () => sink.stop(),
    async storedEvents() {
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

let lostQueries = 0;
/** Loses the first query of all, as UDP may. */
class LossyDns extends ReferenceDns {
  override async answer(message: Buffer, limit: number): Promise<Buffer | undefined> {
    return lostQueries++ === 0 ? undefined : super.answer(message, limit);
  }
}

dnsContract('a small server', async () => {
  const outside = await upstream();
  const server = new LossyDns(outside.port);
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
