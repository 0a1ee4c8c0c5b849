import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pushingServer } from '@oarlock/testing/network/hostile-http2';
import { expect, it } from 'vitest';
import { MessageTable } from '@oarlock/grpc/message-table';
import { UnixClient } from '@oarlock/grpc/unix-client';

const table = new MessageTable({ ProbeRequest: {}, ProbeResponse: {} }, {}, { absent: 'undefined', maxFields: 10 });

it('a call to a socket that does not exist fails with the text of gRPC in Go', async () => {
  const client = new UnixClient({ socket: '/nonexistent/csi.sock', table, timeoutMs: 60_000 });
  await expect(client.call('csi.v1.Identity', 'Probe', {})).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message:
      'connection error: desc = "transport: Error while dialing: dial unix /nonexistent/csi.sock: connect: no such file or directory"',
  });
  client.close();
});

it('a call fails whose server pushes a stream and resets it', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'oarlock-grpc-'));
  const socket = join(directory, 'csi.sock');
  const server = pushingServer().listen(socket);
  await once(server, 'listening');
  const client = new UnixClient({ socket, table, timeoutMs: 10_000 });
  await expect(client.call('csi.v1.Identity', 'Probe', {})).rejects.toMatchObject({ code: 'INTERNAL' });
  client.close();
  server.close();
  await rm(directory, { recursive: true });
});
