import type { Writable } from 'node:stream';
import { StatusError } from '@oarlock/api/status';
import { decodeProtobuf } from '@oarlock/apiserver/endpoints/negotiation/protobuf-decoder';
import * as webSockets from 'ws';
import fc from 'fast-check';
import type { FuzzTarget } from './engine.ts';
import { mutatedBytes } from './inputs.ts';

const target = <T>(each: FuzzTarget<T>): FuzzTarget => each as FuzzTarget;

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let left = value;
  for (; left > 0x7f; left = Math.floor(left / 0x80)) bytes.push((left % 0x80) | 0x80);
  return Buffer.from([...bytes, left]);
}
const lengthDelimited = (field: number, bytes: Uint8Array): Buffer => Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);
const kubernetesKinds = [
  ['v1', 'Pod'],
  ['v1', 'Secret'],
  ['apps/v1', 'Deployment'],
  ['rbac.authorization.k8s.io/v1', 'ClusterRole'],
  ['v1', 'Status'],
  ['meta.k8s.io/v1', 'DeleteOptions'],
] as const;
/** Messages whose lengths are valid, of fields that the kinds have and have not, nested at will. */
const message = fc.letrec<{ readonly message: Buffer }>((tie) => ({
  message: fc
    .array(
      fc.tuple(
        fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 60 })),
        fc.oneof(
          { depthSize: 'medium', withCrossShrink: true },
          fc.string({ maxLength: 12 }).map((text) => ({ wire: 2, bytes: Buffer.from(text) })),
          fc.maxSafeNat().map((value) => ({ wire: 0, bytes: varint(value) })),
          fc.constantFrom(4, 8).map((size) => ({ wire: size === 8 ? 1 : 5, bytes: Buffer.alloc(size, 1) })),
          fc.uint8Array({ maxLength: 12 }).map((bytes) => ({ wire: 2, bytes: Buffer.from(bytes) })),
          tie('message').map((bytes) => ({ wire: 2, bytes })),
        ),
      ),
      { maxLength: 6 },
    )
    .map((fields) =>
      Buffer.concat(
        fields.map(([field, { wire, bytes }]) =>
          wire === 2 ? lengthDelimited(field, bytes) : Buffer.concat([varint(field * 8 + wire), bytes]),
        ),
      ),
    ),
})).message;
const protobufBodies = fc
  .tuple(fc.constantFrom(...kubernetesKinds), message)
  .map(([[apiVersion, kind], raw]) =>
    Buffer.concat([
      Buffer.from('k8s\0'),
      lengthDelimited(1, Buffer.concat([lengthDelimited(1, Buffer.from(apiVersion)), lengthDelimited(2, Buffer.from(kind))])),
      lengthDelimited(2, raw),
    ]),
  );

const opcodes = { continued: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
interface WebSocketFrame {
  readonly fin: boolean;
  readonly opcode: number;
  readonly payload: Uint8Array;
}
/** Returns a frame of a client: with a mask, and with a valid length. */
function encodeFrame({ fin, opcode, payload }: WebSocketFrame): Buffer {
  const mask = Buffer.from('a1b2c3d4', 'hex');
  const first = (fin ? 0x80 : 0) | opcode;
  const { length } = payload;
  const head = length < 126 ? [first, 0x80 | length] : [first, 0xfe, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from(head), mask, payload.map((byte, at) => byte ^ (mask[at % 4] ?? 0))]);
}
const webSocketFrames = fc
  .array(
    fc
      .record({
        fin: fc.boolean(),
        opcode: fc.oneof({ arbitrary: fc.constantFrom(...Object.values(opcodes)), weight: 9 }, fc.nat({ max: 15 })),
        payload: fc.oneof(
          fc.uint8Array({ maxLength: 140 }),
          fc.string({ maxLength: 20 }).map((text) => Buffer.from(text)),
          fc.constantFrom(Buffer.from('03e8', 'hex'), Buffer.from('03ec61', 'hex'), Buffer.from('ffff', 'hex')),
        ),
      })
      .map(encodeFrame),
    { maxLength: 8 },
  )
  .map((frames) => Buffer.concat(frames));

/** Feeds bytes of a client to the receiver of the WebSocket library, as the API server and kubelets configure it. */
function readWebSocket(bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const { Receiver } = webSockets as unknown as {
      readonly Receiver: new (options: { readonly isServer: boolean; readonly maxPayload: number }) => Writable;
    };
    const receiver = new Receiver({ isServer: true, maxPayload: 1024 * 1024 });
    receiver.once('error', reject);
    receiver.end(bytes, (error?: Error | null) => (error ? reject(error) : resolve()));
  });
}
const isWebSocketError = (error: unknown): boolean => error instanceof Error && 'code' in error && String(error.code).startsWith('WS_ERR_');

/** Parsers of frames with lengths, which changes of single bytes seldom leave valid: inputs with changes, and inputs that are framed. */
export const framedTargets: readonly FuzzTarget[] = [
  target({
    name: 'framed protobuf',
    inputs: protobufBodies,
    parse: (bytes) => decodeProtobuf(bytes),
    isRejection: (error) => error instanceof StatusError && error.code < 500,
  }),
  target({
    name: 'WebSocket frames',
    inputs: mutatedBytes(
      Buffer.from('818537fa213d7f9f4d5158', 'hex'),
      Buffer.concat([Buffer.from('82fe012c00000000', 'hex'), Buffer.alloc(300)]),
      Buffer.from('8880000000008980000000000180000000008080000000000', 'hex'),
    ),
    parse: readWebSocket,
    isRejection: isWebSocketError,
  }),
  target({ name: 'framed WebSocket frames', inputs: webSocketFrames, parse: readWebSocket, isRejection: isWebSocketError }),
];
