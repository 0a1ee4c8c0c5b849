import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Http2Server, type ServerHttp2Session } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connectDriver } from '../../src/driver/csi-driver.ts';

/** `ProbeResponse { ready: false }` as a message of gRPC. */
const notReady = Buffer.of(0, 0, 0, 0, 2, 0x0a, 0);

describe('a CSI driver that is never ready', () => {
  let directory: string;
  let server: Http2Server;
  const sessions = new Set<ServerHttp2Session>();
  let onProbe: () => void;

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'oarlock-csi-'));
    server = createServer();
    server.on('session', (session) => {
      sessions.add(session);
      session.on('error', () => {});
      session.once('close', () => sessions.delete(session));
    });
    server.on('stream', (stream) => {
      stream.on('error', () => {});
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => {
        stream.sendTrailers({ 'grpc-status': '0' });
        onProbe();
      });
      stream.end(notReady);
    });
    await new Promise<void>((resolve) => {
      server.listen(join(directory, 'csi.sock'), resolve);
    });
  });
  afterEach(async () => {
    for (const session of sessions) session.destroy();
    await new Promise((resolve) => server.close(resolve));
    rmSync(directory, { recursive: true });
  });

  it('keeps no connection when it is removed while the plugin waits for it', async () => {
    const removal = new AbortController();
    const clock = new FakeClock();
    const probed = new Promise<void>((resolve) => {
      onProbe = resolve;
    });
    const connecting = connectDriver(
      join(directory, 'csi.sock'),
      { socket: '/csi.sock', provision: false, central: true },
      { clock, log: silentLogger, signal: removal.signal },
    );
    const rejected = expect(connecting).rejects.toThrow('removed');
    await probed;
    const [session] = sessions;
    const closed = new Promise((resolve) => {
      session?.once('close', resolve);
    });
    removal.abort(new Error('removed'));
    await rejected;
    await closed;
    expect(sessions.size).toBe(0);
  });
});
