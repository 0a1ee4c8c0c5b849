import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AuditEvent } from '@oarlock/spi/audit';
import { auditContract, auditEvent } from '@oarlock/spi/audit/contract';
import { expect, it } from 'vitest';
import { FileSink } from '../src/file-sink.ts';

auditContract('__ID__', async () => {
  const directory = await mkdtemp(join(tmpdir(), '__ID__-'));
  const file = join(directory, 'audit.log');
  let dropped = 0;
  const sink = new FileSink({
    file,
    waiting: 500,
    maxBytes: 10_000_000,
    lost: (events) => {
      dropped += events;
    },
  });
  await sink.start();
  return {
    sink,
    capacity: 500,
    dropped: () => dropped,
    async storedEvents() {
      await sink.flush();
      const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
      return lines.map((line) => JSON.parse(line) as AuditEvent);
    },
    stop: () => sink.stop(),
    async dispose() {
      await sink.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
});

it('counts dropped events and starts a new file when one is full', async () => {
  const directory = await mkdtemp(join(tmpdir(), '__ID__-'));
  const file = join(directory, 'audit.log');
  const reasons: string[] = [];
  const sink = new FileSink({ file, waiting: 2, maxBytes: 1, lost: (_, reason) => reasons.push(reason) });
  await sink.start();
  for (const id of [1, 2, 3]) sink.record(auditEvent(id));
  await sink.stop();
  const ids = async (of: string) => (await readFile(of, 'utf8')).match(/"auditID":"[^"]+"/g);
  expect(await ids(`${file}.1`)).toEqual([`"auditID":"${auditEvent(1).auditID}"`]);
  expect(await ids(file)).toEqual([`"auditID":"${auditEvent(2).auditID}"`]);
  expect(reasons).toEqual(['too many events are waiting']);
  await rm(directory, { recursive: true, force: true });
});
