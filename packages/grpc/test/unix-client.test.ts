import { expect, it } from 'vitest';
import { MessageTable } from '@oarlock/grpc/message-table';
import { UnixClient } from '@oarlock/grpc/unix-client';

it('a call to a socket that does not exist fails with the text of gRPC in Go', async () => {
  const table = new MessageTable({ ProbeRequest: {}, ProbeResponse: {} }, {}, { absent: 'undefined', maxFields: 10 });
  const client = new UnixClient({ socket: '/nonexistent/csi.sock', table, timeoutMs: 60_000 });
  await expect(client.call('csi.v1.Identity', 'Probe', {})).rejects.toMatchObject({
    code: 'UNAVAILABLE',
    message:
      'connection error: desc = "transport: Error while dialing: dial unix /nonexistent/csi.sock: connect: no such file or directory"',
  });
  client.close();
});
