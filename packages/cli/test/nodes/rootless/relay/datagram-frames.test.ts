import { expect, it } from 'vitest';
import { datagramReader, frameDatagram } from '../../../../src/nodes/rootless/relay/datagram-frames.ts';

it('keeps the borders of datagrams, however the stream is cut', () => {
  const datagrams = [Buffer.from('one'), Buffer.alloc(0), Buffer.alloc(3000, 7), Buffer.from('last')];
  const stream = Buffer.concat(datagrams.map(frameDatagram));
  for (const size of [1, 2, 3, 1000, stream.length]) {
    const found: Buffer[] = [];
    const read = datagramReader((datagram) => found.push(Buffer.from(datagram)));
    for (let at = 0; at < stream.length; at += size) read(stream.subarray(at, at + size));
    expect(found.map((datagram) => datagram.equals(datagrams[found.indexOf(datagram)] ?? Buffer.from('none')))).toEqual(
      datagrams.map(() => true),
    );
  }
});
