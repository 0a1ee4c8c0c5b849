import type { RemoteInfo, Socket } from 'node:dgram';

/**
 * Calls `handle` with each datagram of a socket that can be answered. A program with NET_RAW, such as a pod by default, can send datagrams from port 0,
 * which have no address for an answer (RFC 768): `send` throws for it, and in a listener that would end the process.
 */
export function onDatagram(socket: Pick<Socket, 'on'>, handle: (datagram: Buffer, from: RemoteInfo) => void): void {
  socket.on('message', (datagram, from) => {
    if (from.port !== 0) handle(datagram, from);
  });
}
