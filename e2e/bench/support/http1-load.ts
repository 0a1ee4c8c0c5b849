import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';

export interface Http1Target {
  readonly host: string;
  readonly port: number;
  readonly ca: string;
  /** A client certificate. */
  readonly cert?: string;
  readonly key?: string;
}

/** Sends GET requests over kept HTTP/1.1 connections, each with one request at a time. It reads only what it needs of a response. */
export class Http1Load {
  readonly #sockets: readonly TLSSocket[];

  private constructor(sockets: readonly TLSSocket[]) {
    this.#sockets = sockets;
  }

  static async open(target: Http1Target, connections: number): Promise<Http1Load> {
    const sockets = Array.from({ length: connections }, () => connect({ ...target, servername: 'localhost', ALPNProtocols: ['http/1.1'] }));
    await Promise.all(sockets.map((socket) => once(socket, 'secureConnect')));
    for (const socket of sockets) socket.setNoDelay(true);
    return new Http1Load(sockets);
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Sends `count` requests in all. @throws Error if an answer is not 200 with a `content-length` */
  async get(count: number, headOf: (index: number) => string): Promise<void> {
    let next = 0;
    await Promise.all(
      this.#sockets.map(async (socket) => {
        for (let index = next++; index < count; index = next++) await roundTrip(socket, headOf(index));
      }),
    );
  }
}

function roundTrip(socket: TLSSocket, head: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let received: Buffer = Buffer.alloc(0);
    let length = Infinity;
    const finish = (error?: Error) => {
      socket.off('data', onData).off('close', onClose).off('error', finish);
      if (error === undefined) resolve();
      else reject(error);
    };
    const onClose = () => finish(new Error('the server closed the connection'));
    const onData = (chunk: Buffer) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      if (length === Infinity) {
        const end = received.indexOf('\r\n\r\n');
        if (end < 0) return;
        const text = received.toString('latin1', 0, end);
        const body = /^content-length: (\d+)$/im.exec(text)?.[1];
        if (!text.startsWith('HTTP/1.1 200 ') || body === undefined) return finish(new Error(`unexpected answer: ${text}`));
        length = end + 4 + Number(body);
      }
      if (received.length >= length) finish();
    };
    socket.on('data', onData).once('close', onClose).once('error', finish);
    socket.write(head);
  });
}
