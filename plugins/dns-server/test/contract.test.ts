import { once } from 'node:events';
import { createSocket } from 'node:dgram';
import type { AddressInfo } from 'node:net';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { dnsContract } from '@oarlock/spi/dns/contract';
import { decode, encode } from 'dns-packet';
import { started } from './support/fixture.ts';

/** An upstream server that has one name and records its queries. */
async function upstreamServer() {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (message, { address, port }) => {
    const { id, questions = [] } = decode(message);
    const [question] = questions;
    asked.push(question?.name ?? '');
    const known = question?.name.toLowerCase() === 'outside.example';
    socket.send(
      encode({
        type: 'response',
        id: id ?? 0,
        flags: 0x0180 | (known ? 0 : 3),
        questions,
        answers: known && question?.type === 'A' ? [{ type: 'A', name: question.name, ttl: 0, data: '192.0.2.7' }] : [],
      }),
      port,
      address,
    );
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  let open = true;
  return {
    port: (socket.address() as AddressInfo).port,
    asked: () => asked,
    async stop() {
      if (!open) return;
      open = false;
      socket.close();
      await once(socket, 'close');
    },
  };
}

dnsContract('dns-server', async () => {
  const upstream = await upstreamServer();
  const { server, port, stop } = await started(
    { upstreams: [`127.0.0.1:${upstream.port}`], upstreamTimeoutMs: 500 },
    systemClock,
    silentLogger,
  );
  return {
    server,
    endpoint: { ip: '127.0.0.1', port },
    upstream: { name: 'outside.example', address: '192.0.2.7', stop: () => upstream.stop(), asked: () => upstream.asked() },
    async dispose() {
      await stop();
      await upstream.stop();
    },
  };
});
