import { Duplex } from 'node:stream';
import { constants, deflateRawSync } from 'node:zlib';
import { SpdyConnection } from '@oarlock/spdy/connection';
import { encodeFrame, type Frame } from '@oarlock/spdy/frames';
import fc from 'fast-check';
import type { FuzzTarget } from './engine.ts';
import { mutatedBytes } from './inputs.ts';

const target = <T>(each: FuzzTarget<T>): FuzzTarget => each as FuzzTarget;

/** Feeds bytes to one end of a SPDY connection and waits until it has read them or closed. */
async function readSpdy(bytes: Buffer): Promise<void> {
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  const connection = new SpdyConnection(socket, { role: 'server', onStream: (stream) => stream.on('error', () => {}) });
  socket.on('error', () => {});
  socket.push(bytes);
  await new Promise((resolve) => setImmediate(resolve));
  socket.destroy();
  await connection.closed;
}

const word = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value >>> 0);
  return bytes;
};
const text = fc.oneof(
  fc.constantFrom('streamtype', 'stdin', 'error', 'port', '80', 'requestid', '__proto__', 'constructor', '', '\0'),
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.constant('a'.repeat(5000)),
);
/** Differences between a length in a block and the true one: seldom another than 0. */
const error = fc.oneof(
  { arbitrary: fc.constant(0), weight: 30 },
  { arbitrary: fc.constantFrom(1, -1, 0x7fffffff, -0x80000000), weight: 1 },
);
const sized = fc.tuple(text, error).map(([value, wrong]) => {
  const bytes = Buffer.from(value);
  return Buffer.concat([word(bytes.length + wrong), bytes]);
});
/** Header blocks before compression (SPDY/3, section 2.6.10). */
const plainBlock = fc
  .tuple(fc.array(fc.tuple(sized, sized), { maxLength: 5 }), error)
  .map(([headers, wrong]) => Buffer.concat([word(headers.length + wrong), ...headers.flat()]));

type Draft =
  | Frame
  | { readonly type: 'synStream' | 'synReply' | 'headers'; readonly stream: number; readonly fin: boolean; readonly plain: Buffer };
const stream = fc.oneof({ arbitrary: fc.constantFrom(1, 3, 5, 7), weight: 9 }, fc.constantFrom(0, 2, 0x7fffffff));
const drafts: fc.Arbitrary<readonly Draft[]> = fc.array(
  fc.oneof(
    fc.record({ type: fc.constantFrom('synStream', 'synStream', 'synReply', 'headers'), stream, fin: fc.boolean(), plain: plainBlock }),
    fc.record({
      type: fc.constant('data'),
      stream,
      fin: fc.boolean(),
      bytes: fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
    }),
    fc.record({ type: fc.constant('rstStream'), stream, status: fc.nat({ max: 12 }) }),
    fc.record({ type: fc.constant('windowUpdate'), stream, delta: fc.constantFrom(0, 1, 65_536, 0x7fffffff) }),
    fc.record({
      type: fc.constant('settings'),
      values: fc.constantFrom([7, 0], [7, 65_536], [7, 0x7fffffff], [4, 1]).map(([key = 0, value = 0]) => new Map([[key, value]])),
    }),
    fc.record({ type: fc.constant('ping'), id: fc.nat({ max: 4 }) }),
    fc.record({ type: fc.constant('goAway'), lastStream: stream, status: fc.nat({ max: 3 }) }),
  ) as fc.Arbitrary<Draft>,
  { minLength: 1, maxLength: 8 },
);

/** Encodes frames. The header blocks are one zlib stream without a dictionary, flushed after each block. */
function encode(frames: readonly Draft[]): Buffer {
  let window = Buffer.alloc(0);
  const compress = (plain: Buffer): Buffer => {
    const packed = deflateRawSync(plain, { finishFlush: constants.Z_SYNC_FLUSH, ...(window.length > 0 && { dictionary: window }) });
    const block = window.length > 0 ? packed : Buffer.concat([Buffer.from('789c', 'hex'), packed]);
    window = Buffer.concat([window, plain]).subarray(-32 * 1024);
    return block;
  };
  return Buffer.concat(
    frames.map((frame) => {
      if ('plain' in frame) {
        const { type, stream: id, fin, plain } = frame;
        const block = compress(plain);
        return encodeFrame(
          type === 'synStream' ? { type, stream: id, fin, unidirectional: false, priority: 0, block } : { type, stream: id, fin, block },
        );
      }
      if (frame.type !== 'data') return encodeFrame(frame);
      return Buffer.concat([word(frame.stream), word((frame.fin ? 0x01000000 : 0) + frame.bytes.length), frame.bytes]);
    }),
  );
}

const never = () => false;

/** SPDY connections: bytes with changes, and frames whose lengths and compression are valid. */
export const spdyTargets: readonly FuzzTarget[] = [
  target({
    name: 'SPDY frames',
    inputs: mutatedBytes(
      Buffer.concat([encodeFrame({ type: 'ping', id: 1 }), encodeFrame({ type: 'windowUpdate', stream: 1, delta: 10 })]),
      encodeFrame({
        type: 'synStream',
        stream: 1,
        fin: false,
        unidirectional: false,
        priority: 0,
        block: Buffer.from('78bbe3c6a7c202000000ffff', 'hex'),
      }),
      encodeFrame({ type: 'settings', values: new Map([[4, 100]]) }),
    ),
    parse: readSpdy,
    isRejection: never,
  }),
  target({ name: 'framed SPDY connections', inputs: drafts.map(encode), parse: readSpdy, isRejection: never }),
];
