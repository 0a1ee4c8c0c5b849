import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type WebSocket } from 'ws';
import { closedStream, type Exchange, type ResponseStream } from './exchange.ts';

/** The WebSocket subprotocols of streamed responses: binary messages, or text messages in base64. */
const protocols = ['binary.k8s.io', 'base64.binary.k8s.io'] as const;
/** The maximum size of a client message in bytes. Clients only send close frames. */
const maxReceived = 64 * 1024;
/** The number of buffered bytes above which `write` returns false. */
const maxBuffered = 256 * 1024;

const servers = new WebSocketServer({ noServer: true, clientTracking: false, perMessageDeflate: false, maxPayload: maxReceived });
const chosenProtocols = new WeakMap<IncomingMessage, string>();
servers.on('headers', (headers, request) => {
  const protocol = chosenProtocols.get(request);
  if (protocol !== undefined) headers.push(`Sec-WebSocket-Protocol: ${protocol}`);
});

interface Upgrade {
  readonly socket: Duplex;
  readonly head: Buffer;
  begin(code: number): void;
}

/** Returns true if the client requests the response as WebSocket messages. */
export const wantsWebSocket = ({ headers }: Pick<Exchange, 'headers'>): boolean => headers.upgrade?.toLowerCase() === 'websocket';

/**
 * Returns an exchange that sends a streamed response, such as a log or a watch, as WebSocket messages. The connection is upgraded when a response
 * with code 200 begins; other responses are sent without an upgrade.
 */
export function webSocketExchange(exchange: Exchange, upgrade: Upgrade, { text }: { readonly text: boolean }): Exchange {
  return {
    get method() {
      return exchange.method;
    },
    get target() {
      return exchange.target;
    },
    get headers() {
      return exchange.headers;
    },
    get rawHeaders() {
      return exchange.rawHeaders;
    },
    get connection() {
      return exchange.connection;
    },
    get signal() {
      return exchange.signal;
    },
    get state() {
      return exchange.state;
    },
    get statusCode() {
      return exchange.statusCode;
    },
    get bytesSent() {
      return exchange.bytesSent;
    },
    cancel: (reason) => exchange.cancel(reason),
    setHeader: (name, value) => exchange.setHeader(name, value),
    requestStream: () => exchange.requestStream(),
    readBody: (limit) => exchange.readBody(limit),
    releaseBody: () => exchange.releaseBody(),
    send: (code, body) => exchange.send(code, body),
    openStream: (code) =>
      code === 200 && exchange.state === 'fresh' ? acceptWebSocket(exchange, upgrade, text) : exchange.openStream(code),
    abort() {
      if (exchange.state === 'fresh') exchange.abort();
      else upgrade.socket.destroy();
    },
  };
}

function acceptWebSocket(exchange: Exchange, { socket, head, begin: handOver }: Upgrade, text: boolean): ResponseStream {
  const offered = (exchange.headers['sec-websocket-protocol'] ?? '').split(',').map((word) => word.trim());
  const protocol = protocols.find((known) => offered.includes(known));
  const { 'sec-websocket-protocol': _offered, ...headers } = exchange.headers;
  const request = { method: exchange.method, url: exchange.target, headers } as unknown as IncomingMessage;
  if (protocol !== undefined) chosenProtocols.set(request, protocol);
  let stream: ResponseStream = closedStream;
  handOver(101);
  servers.handleUpgrade(request, socket, head, (webSocket) => {
    webSocket.on('error', () => undefined); // `close` follows
    webSocket.once('close', () => exchange.cancel(new Error('the client has disconnected')));
    stream = new WebSocketStream(webSocket, text ? 'text' : protocol === 'base64.binary.k8s.io' ? 'base64' : 'binary');
  });
  return stream;
}

class WebSocketStream implements ResponseStream {
  readonly isMessageBased = true;
  readonly #socket: WebSocket;
  readonly #form: 'text' | 'base64' | 'binary';
  #last: Promise<void> = Promise.resolve();

  constructor(socket: WebSocket, form: 'text' | 'base64' | 'binary') {
    this.#socket = socket;
    this.#form = form;
  }

  get closed(): boolean {
    return this.#socket.readyState !== this.#socket.OPEN;
  }

  write(chunks: readonly Buffer[]): boolean {
    for (const chunk of chunks) {
      this.#last = new Promise((resolve) => {
        this.#socket.send(this.#form === 'base64' ? chunk.toString('base64') : chunk, { binary: this.#form === 'binary' }, () => resolve());
      });
    }
    return this.#socket.bufferedAmount < maxBuffered;
  }
  waitForDrain(): Promise<void> {
    return this.#last;
  }
  end(): void {
    this.#socket.close(1000);
  }
}
