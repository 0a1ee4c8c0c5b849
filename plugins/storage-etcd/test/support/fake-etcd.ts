import { createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import { rpcs, schema } from '../../src/rpc/etcd-messages.ts';
import { frame, FrameReader } from '../../src/rpc/grpc-frames.ts';

export type Message = Record<string, unknown>;
type Answer = Message | { readonly status: number; readonly message: string };
const isStatus = (answer: Answer): answer is { status: number; message: string } =>
  typeof (answer as { status?: unknown }).status === 'number';

const types: Readonly<Record<string, readonly [string, string]>> = {
  [rpcs.range.path]: ['RangeRequest', 'RangeResponse'],
  [rpcs.put.path]: ['PutRequest', 'PutResponse'],
  [rpcs.txn.path]: ['TxnRequest', 'TxnResponse'],
  [rpcs.compact.path]: ['CompactionRequest', 'CompactionResponse'],
  [rpcs.leaseGrant.path]: ['LeaseGrantRequest', 'LeaseGrantResponse'],
  [rpcs.status.path]: ['StatusRequest', 'StatusResponse'],
  [rpcs.watch.path]: ['WatchRequest', 'WatchResponse'],
};

/** The server side of a watch stream. `received` returns the client's messages in order. */
export class FakeWatch {
  readonly stream: ServerHttp2Stream;
  readonly #requests: Message[] = [];
  #wake = () => {};

  constructor(stream: ServerHttp2Stream) {
    this.stream = stream;
  }

  push(message: Message): void {
    this.#requests.push(message);
    this.#wake();
  }

  async received(): Promise<Message> {
    while (this.#requests.length === 0)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    return this.#requests.shift() as Message;
  }

  send(response: Message): void {
    this.stream.write(
      frame(
        schema
          .lookupType('WatchResponse')
          .encode({ watch_id: 0, ...response })
          .finish(),
      ),
    );
  }
}

/** Implements etcd's protocol with one handler per method, which the test supplies. */
export class FakeEtcd {
  readonly endpoint: string;
  readonly calls: { readonly method: string; readonly request: Message }[] = [];
  readonly handlers: Record<string, (request: Message, stream: ServerHttp2Stream) => Answer | undefined> = {};
  version = '3.4.23';
  revision = 100;
  readonly #server: Http2Server;
  readonly #sessions = new Set<ServerHttp2Session>();
  readonly #watches: FakeWatch[] = [];
  #wake = () => {};

  private constructor(server: Http2Server, port: number) {
    this.#server = server;
    this.endpoint = `http://127.0.0.1:${port}`;
    this.handlers['Status'] = () => ({ version: this.version, leader: 1 });
    this.handlers['Range'] = () => ({ header: { revision: this.revision }, count: 0 });
    this.handlers['Put'] = () => ({ header: { revision: (this.revision += 1) } });
    this.handlers['Txn'] = () => ({ header: { revision: (this.revision += 1) }, succeeded: true });
    this.handlers['LeaseGrant'] = ({ TTL }) => ({ TTL });
    server.on('session', (session) => {
      this.#sessions.add(session);
      session.once('close', () => this.#sessions.delete(session));
    });
    server.on('stream', (stream, headers) => this.#serve(stream, String(headers[':path'])));
  }

  static async start(): Promise<FakeEtcd> {
    const server = createServer();
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    const address = server.address();
    if (typeof address !== 'object' || address === null) throw new Error('no port');
    return new FakeEtcd(server, address.port);
  }

  /** Returns the number of calls of a method. */
  count(method: string): number {
    return this.calls.filter((call) => call.method === method).length;
  }

  /** Returns the next watch stream that is opened. */
  async watch(): Promise<FakeWatch> {
    while (this.#watches.length === 0)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    return this.#watches.shift() as FakeWatch;
  }

  /** Destroys all connections. */
  disconnect(): void {
    for (const session of this.#sessions) session.destroy();
  }
  goAway(): void {
    for (const session of this.#sessions) session.goaway(0);
  }

  async stop(): Promise<void> {
    this.disconnect();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }

  #serve(stream: ServerHttp2Stream, path: string): void {
    const [requestType, responseType] = types[path] ?? ['', ''];
    const method = path.slice(path.lastIndexOf('/') + 1);
    const reader = new FrameReader();
    stream.on('error', () => {});
    if (method === 'Watch') {
      const watch = new FakeWatch(stream);
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
      stream.on('data', (chunk: Buffer) =>
        reader.push(chunk, (message) => watch.push(schema.lookupType(requestType).decode(message) as unknown as Message)),
      );
      this.#watches.push(watch);
      this.#wake();
      return;
    }
    stream.on('data', (chunk: Buffer) =>
      reader.push(chunk, (message) => {
        const request = schema.lookupType(requestType).decode(message) as unknown as Message;
        this.calls.push({ method, request });
        const answer = this.handlers[method]?.(request, stream);
        if (!answer) return;
        if (isStatus(answer)) {
          stream.respond(
            { ':status': 200, 'content-type': 'application/grpc', 'grpc-status': answer.status, 'grpc-message': answer.message },
            { endStream: true },
          );
          return;
        }
        stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
        stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
        stream.end(frame(schema.lookupType(responseType).encode(answer).finish()));
      }),
    );
  }
}
