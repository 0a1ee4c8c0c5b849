import { auditEvent } from '@oarlock/spi/audit/contract';
import { describe, expect, it } from 'vitest';
import { EventWriter } from '../src/event-writer.ts';

describe('EventWriter in batch mode', () => {
  it('drops events beyond its size until a write completes', async () => {
    let lost = 0;
    const writes: (() => void)[] = [];
    const length = `${JSON.stringify(auditEvent(1))}\n`.length;
    const writer = new EventWriter({
      mode: 'batch',
      bufferSize: 1_000,
      maxBufferedBytes: 2 * length,
      append: () => new Promise((resolve) => writes.push(resolve)),
      onLost: (events) => {
        lost += events;
      },
    });
    writer.open();
    for (let nth = 1; nth <= 3; nth++) void writer.record(auditEvent(nth));
    expect(lost).toBe(1);
    const stopped = writer.stop();
    await expect.poll(() => writes.length).toBe(1);
    writes[0]?.();
    await stopped;
    writer.open();
    void writer.record(auditEvent(4));
    expect(lost).toBe(1);
    await expect.poll(() => writes.length).toBe(2);
    writes[1]?.();
    await writer.stop();
  });
});
