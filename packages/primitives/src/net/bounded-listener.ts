import type { IncomingMessage, Server as HttpServer } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';

/**
 * Deadlines of HTTP listeners in milliseconds, as options of `createServer`. Without them, a TLS handshake may last two minutes and the rest of a request
 * five.
 */
export const listenerDeadlines = {
  handshakeTimeout: 10_000,
  headersTimeout: 32_000,
  requestTimeout: 60_000,
  connectionsCheckingInterval: 5_000,
} as const;

export interface ListenerBounds {
  /** The maximum number of connections. Further ones are closed. */
  readonly maxConnections: number;
  /** The maximum number of connections of one address that have not sent a request yet. The oldest one is closed for a new one. */
  readonly maxSilentPerSource: number;
}

type Peer = Pick<Socket, 'remoteAddress' | 'remotePort'>;

const defaultBounds: ListenerBounds = { maxConnections: 1024, maxSilentPerSource: 256 };

/** Bounds the connections of a listener, so that silent clients cannot use up the file descriptors of the process, and rejects those that are not HTTP/1. */
export function boundConnections(server: HttpServer | HttpsServer, bounds: Partial<ListenerBounds> = {}): void {
  const { maxConnections, maxSilentPerSource } = { ...defaultBounds, ...bounds };
  const silent = new Map<string, Map<number, Socket>>();
  const release = ({ remoteAddress = '', remotePort = 0 }: Peer) => {
    const ofSource = silent.get(remoteAddress);
    if (ofSource?.delete(remotePort) === true && ofSource.size === 0) silent.delete(remoteAddress);
  };
  server.maxConnections = maxConnections;
  server.on('connection', (socket: Socket) => {
    const { remoteAddress, remotePort } = socket;
    // the client has already closed the connection
    if (remoteAddress === undefined || remotePort === undefined) return;
    const ofSource = silent.get(remoteAddress) ?? new Map<number, Socket>();
    silent.set(remoteAddress, ofSource.set(remotePort, socket));
    socket.once('close', () => release({ remoteAddress, remotePort }));
    if (ofSource.size <= maxSilentPerSource) return;
    const [oldest] = ofSource.values();
    oldest?.destroy();
  });
  const emit = server.emit.bind(server) as Emit;
  // a listener could not keep the others from a request that is rejected
  server.emit = (event: string | symbol, ...args: readonly unknown[]) => {
    if (!requestEvents.has(event)) return emit(event, ...args);
    const { socket, httpVersionMajor } = args[0] as IncomingMessage;
    release(socket);
    // Node.js reads a request line without a version as HTTP/0.9, for which a proxy in front may have read another request
    if (httpVersionMajor === 1) return emit(event, ...args);
    socket.end(`HTTP/1.1 ${httpVersionMajor === 0 ? '400 Bad Request' : '505 HTTP Version Not Supported'}\r\nConnection: close\r\n\r\n`);
    socket.destroySoon(); // nothing that follows on this connection is read
    return true;
  };
}

type Emit = (event: string | symbol, ...args: readonly unknown[]) => boolean;

/** The events with which Node.js hands over a request. */
const requestEvents: ReadonlySet<string | symbol> = new Set(['request', 'upgrade', 'connect', 'checkContinue', 'checkExpectation']);
