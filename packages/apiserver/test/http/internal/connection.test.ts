import { Socket } from 'node:net';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { expect, it } from 'vitest';
import { connectionLimits, defaultConnectionConfig } from '../../../src/http/connection-limits.ts';
import { Connection } from '../../../src/http/internal/connection.ts';

it('reports one reason, although checks continue until the socket is closed', async () => {
  const clock = new FakeClock();
  const reasons: string[] = [];
  const limits = connectionLimits(defaultConnectionConfig, 60_000);
  const connection = new Connection({
    socket: new Socket(),
    key: '1',
    source: '192.0.2.1',
    limits,
    clock,
    onRaiseClass() {},
    onClose: (reason) => void reasons.push(reason),
  });
  await clock.advance(limits.handshakeTimeoutMs);
  connection.check(clock.monotonic());
  connection.check(clock.monotonic());
  connection.closeFor('total-limit');
  expect(reasons).toEqual(['handshake-timeout']);
  expect(connection.isDestroyed).toBe(true);
});
