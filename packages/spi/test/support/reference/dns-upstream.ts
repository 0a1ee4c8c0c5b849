import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { codes, encodeAnswer, parseQuestion, types } from './dns-message.ts';

/** Starts a DNS server that resolves one name outside the cluster, and records the queried names. */
export async function upstream(): Promise<{
  readonly name: string;
  readonly address: string;
  readonly port: number;
  stop(): Promise<void>;
  asked(): readonly string[];
}> {
  const [name, address] = ['outside.example', '192.0.2.80'];
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (message, from) => {
    const question = parseQuestion(message);
    if (question === undefined) return;
    asked.push(question.name);
    const known = question.name.toLowerCase() === name && question.type === types.A;
    const data = Buffer.from(address.split('.').map(Number));
    socket.send(
      encodeAnswer(question, known ? codes.ok : codes.noSuchName, known ? [{ type: types.A, data }] : [], 512),
      from.port,
      from.address,
    );
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  let open = true;
  return {
    name,
    address,
    port: socket.address().port,
    asked: () => asked,
    async stop() {
      if (!open) return;
      open = false;
      socket.close();
      await once(socket, 'close');
    },
  };
}
