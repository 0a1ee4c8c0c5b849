import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { SpdyConnection } from '@oarlock/spdy/connection';
import { expect, it, onTestFinished } from 'vitest';
import { portForward } from '../../src/streaming/port-forward.ts';

/** Starts a streaming server that accepts each stream, as that of the runtime does, and returns its URL. */
async function streamingServer(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer().on('upgrade', (_request, socket: Socket, head: Buffer) => {
    sockets.add(socket);
    socket.write(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n',
    );
    void new SpdyConnection(
      socket,
      {
        role: 'server',
        onStream: (stream) => {
          stream.on('error', () => undefined); // the client ends the connection
          stream.reply();
        },
      },
      head,
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

it('a connection that the client ends before the runtime received anything has no late error', async () => {
  const late: unknown[] = [];
  const note = (error: unknown) => void late.push(error);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  const forwarded = await portForward(await streamingServer(), 80, { signal: undefined, idleMs: 60_000 });
  // the end of the error stream waits for the next turn
  forwarded.destroy();
  await once(forwarded, 'close');
  for (let turns = 0; turns < 5; turns += 1) await turn();
  expect(late).toEqual([]);
});
