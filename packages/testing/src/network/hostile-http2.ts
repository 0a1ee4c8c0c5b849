import { createServer, type Server, type Socket } from 'node:net';

const types = { data: 0, headers: 1, reset: 3, settings: 4, push: 5 } as const;

/** Encodes an HTTP/2 frame (RFC 9113, section 4.1). */
function frame(type: keyof typeof types, stream: number, { payload = Buffer.alloc(0), flags = 0 } = {}): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(types[type], 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

const endHeaders = 4;
/** `:method: GET`, `:scheme: http`, `:path: /`, `:authority: x`, and `:status: 200`, by the static table of HPACK. */
const [get, ok] = [Buffer.from([0x82, 0x86, 0x84, 0x01, 1, 0x78]), Buffer.from([0x88])];
const number = (value: number) => Buffer.from([0, 0, 0, value]);
/** A pushed stream for the first request of the client, and the resets of both with INTERNAL_ERROR. */
const pushedAndReset = Buffer.concat([
  frame('push', 1, { payload: Buffer.concat([number(2), get]), flags: endHeaders }),
  frame('headers', 2, { payload: ok, flags: endHeaders }),
  frame('reset', 2, { payload: number(2) }),
  frame('reset', 1, { payload: number(2) }),
]);

/** Returns a cleartext HTTP/2 server that answers the first request of a connection with a pushed stream, and resets both. */
export function pushingServer(): Server {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => socket.destroy());
    socket.write(frame('settings', 0));
    let received = Buffer.alloc(0);
    const read = (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (!hasRequest(received)) return;
      socket.off('data', read).resume();
      socket.write(pushedAndReset);
    };
    socket.on('data', read);
  });
  const close = server.close.bind(server);
  server.close = (done) => {
    for (const socket of open) socket.destroy();
    return close(done);
  };
  return server;
}

/** The length of the client's connection preface (RFC 9113, section 3.4). */
const prefaceLength = 24;

/** True if the bytes of a client contain a HEADERS frame. */
function hasRequest(bytes: Buffer): boolean {
  for (let at = prefaceLength; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3)) if (bytes[at + 3] === types.headers) return true;
  return false;
}
