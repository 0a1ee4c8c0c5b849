import { duplexPair, PassThrough, type Duplex } from 'node:stream';
import { systemClock } from '@oarlock/primitives/clock';
import { SpdyConnection } from '@oarlock/spdy/connection';
import { expect, it } from 'vitest';
import { servePortForward } from '../../../src/server/streaming/port-forward.ts';

/** The bytes that a client sends to open the two streams of a forwarded connection. */
async function openedStreams(): Promise<Buffer> {
  const [near, far] = duplexPair();
  const client = new SpdyConnection(near, { role: 'client' });
  for (const streamType of ['error', 'data']) client.open({ streamType, requestID: '0', port: '80' });
  void client.close(); // the rest of the bytes; the other side does not close
  return Buffer.concat((await far.toArray()) as Buffer[]);
}

it('streams are accepted that the client opened with its request', async () => {
  const [, far] = duplexPair();
  const stop = new AbortController();
  const port = await new Promise<number>((resolve, reject) => {
    const connect = (named: number): Promise<Duplex> => {
      resolve(named);
      return Promise.resolve(new PassThrough());
    };
    openedStreams()
      .then((head) =>
        servePortForward(
          { socket: far, head },
          { name: 'a_b', uid: '1', connect },
          { stopped: stop.signal, clock: systemClock, active: () => undefined },
        ),
      )
      .then(() => reject(new Error('the session ended')), reject);
  });
  expect(port).toBe(80);
  stop.abort();
});
