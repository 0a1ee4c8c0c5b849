import { createSocket, type RemoteInfo } from 'node:dgram';
import { expect, it } from 'vitest';
import { onDatagram } from '../../src/net/datagrams.ts';

it('ignores datagrams that cannot be answered', () => {
  const socket = createSocket('udp4');
  const ports: number[] = [];
  onDatagram(socket, (_, from) => ports.push(from.port));
  const from = (port: number): RemoteInfo => ({ address: '127.0.0.1', family: 'IPv4', port, size: 1 });
  for (const port of [0, 53]) socket.emit('message', Buffer.from('x'), from(port));
  expect(ports).toEqual([53]);
  socket.close();
});
