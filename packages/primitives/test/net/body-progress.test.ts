import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { beforeEach, describe, expect, it } from 'vitest';
import { bodyProgress, requireEnd, requireProgress } from '../../src/net/body-progress.ts';

let clock: FakeClock;
let body: IncomingMessage;
let socket: { bytesRead: number };
let failure: Error | undefined;
beforeEach(() => {
  clock = new FakeClock();
  failure = undefined;
  socket = { bytesRead: 0 };
  body = Object.assign(new Readable({ read() {} }), { socket }) as unknown as IncomingMessage;
  body.on('error', (error) => {
    failure = error;
  });
});

/** Lets bytes arrive once a second. The reader takes them at once. */
async function receive(bytesPerSecond: number, seconds: number): Promise<void> {
  body.on('data', () => {});
  for (let second = 0; second < seconds && !body.destroyed; second += 1) {
    socket.bytesRead += bytesPerSecond;
    body.push(Buffer.alloc(1));
    await clock.advance(1000);
  }
}

describe('a body', () => {
  it('of single bytes fails at the end of the window', async () => {
    requireProgress(body, clock);
    await receive(1, 59);
    expect(failure).toBeUndefined();
    await receive(1, 1);
    expect(failure?.message).toBe('the server sent less than 61440 bytes within 60000 ms');
  });

  it('fails in the window in which it becomes slow', async () => {
    requireProgress(body, clock);
    await receive(1024, 300);
    expect(failure).toBeUndefined();
    await receive(1000, 60);
    expect(failure).toBeDefined();
  });

  it('may be slow while its reader has not taken what arrived', async () => {
    requireProgress(body, clock);
    body.push('not read yet');
    await clock.advance(10 * bodyProgress.windowMs);
    expect(failure).toBeUndefined();
  });

  it('counts no bytes of earlier responses of the connection', async () => {
    socket.bytesRead = 1_000_000;
    requireProgress(body, clock);
    await receive(1, 60);
    expect(failure).toBeDefined();
  });

  it('that is read into memory fails at the end of its time, however fast it is', async () => {
    requireProgress(body, clock);
    requireEnd(body, { clock, withinMs: 30_000 });
    await receive(1_000_000, 30);
    expect(failure?.message).toBe('the response did not end within 30000 ms');
  });

  it('has no deadline after its end', async () => {
    requireProgress(body, clock);
    requireEnd(body, { clock, withinMs: 30_000 });
    body.resume().push(null);
    await clock.advance(10 * bodyProgress.windowMs);
    expect(failure).toBeUndefined();
  });
});
