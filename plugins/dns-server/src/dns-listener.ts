import { createSocket, type RemoteInfo, type Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, isIPv6, type BlockList, type Server, type Socket } from 'node:net';
import { SourceShares } from '@oarlock/primitives/concurrency/source-shares';
import type { Logger } from '@oarlock/primitives/logger';
import { onDatagram } from '@oarlock/primitives/net/datagrams';
import { encode, type Packet } from 'dns-packet';
import { compressNames } from './message/compress-names.ts';
import { decodeMessage, largestDatagram, optOf, rcodes, truncated } from './message/message.ts';
import { errorReply, type Responder } from './responder.ts';

export interface ListenerOptions {
  readonly address: string;
  /** The port for UDP and TCP; 0 selects a free port. */
  readonly port: number;
  /** The address ranges of accepted clients. An open resolver could be abused for amplification attacks. */
  readonly clients: BlockList;
  /** Returns true for the address of a node, which is also accepted: queries of pods on other nodes may have their node's address. */
  readonly isNode: (address: string) => boolean;
  readonly responder: Pick<Responder, 'respond'>;
  /** Called when a TCP connection is rejected because all places, or the client's share of them, are in use. */
  readonly onRejectedConnection: () => void;
  readonly log: Logger;
}

const headerBytes = 12;
const isResponse = 0x80;
const plainDatagram = 512; // RFC 1035, 4.2.1
/** The maximum number of TCP connections, of which a client takes its share only. */
const maxConnections = 256;
const idleMs = 10_000;
const maxQueryBytes = 4096;
/** The maximum number of concurrent queries per TCP connection. */
const maxPipelined = 64;
const attempts = 20;

/** A DNS server for UDP and TCP on one address and port. */
export class DnsListener {
  readonly #options: ListenerOptions;
  #udp: DatagramSocket | undefined;
  #tcp: Server | undefined;
  readonly #sockets = new Set<Socket>();
  readonly #shares = new SourceShares(maxConnections);

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  get port(): number {
    return this.#udp?.address().port ?? this.#options.port;
  }

  /** Starts to listen. @throws Error if the address or port is not available */
  async start(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#bind();
        return;
      } catch (error) {
        await this.stop();
        // a port that is free for one protocol may be in use for the other
        const { code } = error as NodeJS.ErrnoException;
        if (this.#options.port !== 0 || code !== 'EADDRINUSE' || attempt === attempts) throw error;
      }
    }
  }

  async stop(): Promise<void> {
    const udp = this.#udp;
    const tcp = this.#tcp;
    this.#udp = undefined;
    this.#tcp = undefined;
    for (const socket of this.#sockets) socket.destroy();
    const closed: Promise<unknown>[] = [];
    if (udp !== undefined) {
      closed.push(once(udp, 'close'));
      udp.close();
    }
    if (tcp?.listening === true) {
      closed.push(once(tcp, 'close'));
      tcp.close();
    }
    await Promise.all(closed);
  }

  async #bind(): Promise<void> {
    const { address, port, log } = this.#options;
    const udp = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    const bound = once(udp, 'listening');
    udp.bind(port, address);
    await bound;
    this.#udp = udp;
    onDatagram(udp, (message, from) => {
      if (this.#isAllowedClient(from.address)) void this.#datagram(udp, message, from);
    });
    udp.on('error', (error) => {
      log.warn({ err: error }, 'the UDP socket failed');
    });
    const tcp = createServer({ allowHalfOpen: true }, (socket) => {
      this.#connection(socket);
    });
    tcp.maxConnections = maxConnections;
    tcp.on('drop', this.#options.onRejectedConnection);
    const listening = once(tcp, 'listening');
    tcp.listen(udp.address().port, address);
    this.#tcp = tcp;
    await listening;
    tcp.on('error', (error) => {
      log.warn({ err: error }, 'the TCP socket failed');
    });
  }

  #isAllowedClient(address: string | undefined): boolean {
    if (address === undefined) return false;
    const plain = plainAddress(address);
    return this.#options.clients.check(plain, isIPv6(plain) ? 'ipv6' : 'ipv4') || this.#options.isNode(plain);
  }

  async #datagram(socket: DatagramSocket, message: Buffer, { address, port }: RemoteInfo): Promise<void> {
    const answer = await this.#answer(message, { source: plainAddress(address), anySize: false });
    if (answer === undefined || socket !== this.#udp) return;
    socket.send(answer, port, address, (error) => {
      if (error) this.#options.log.debug({ err: error, address }, 'a response could not be sent');
    });
  }

  #connection(socket: Socket): void {
    if (!this.#isAllowedClient(socket.remoteAddress)) {
      socket.destroy();
      return;
    }
    const source = plainAddress(socket.remoteAddress ?? '');
    if (!this.#shares.take(source)) {
      this.#options.onRejectedConnection();
      socket.resetAndDestroy();
      return;
    }
    this.#sockets.add(socket);
    socket.setTimeout(idleMs, () => socket.destroy());
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      this.#sockets.delete(socket);
      this.#shares.release(source);
    });
    answerQueries(socket, (message) => this.#answer(message, { source, anySize: true }));
  }

  /** Returns the response to a message; undefined if the message is not a query and gets no response. */
  async #answer(message: Buffer, { source, anySize }: { readonly source: string; readonly anySize: boolean }): Promise<Buffer | undefined> {
    if (message.length < headerBytes || ((message[2] ?? 0) & isResponse) !== 0) return undefined;
    const query = decodeMessage(message);
    const packet =
      query === undefined ? errorReply(message.readUInt16BE(0), rcodes.FORMERR) : await this.#options.responder.respond(query, source);
    let bytes: Buffer;
    try {
      bytes = compressNames(encode(packet));
    } catch (error) {
      this.#options.log.warn({ err: error }, 'a response could not be encoded');
      return encode(errorReply(message.readUInt16BE(0), rcodes.SERVFAIL));
    }
    const offered = (query && optOf(query)?.udpPayloadSize) ?? plainDatagram;
    const space = anySize ? 65_535 : Math.min(largestDatagram, Math.max(plainDatagram, offered));
    return bytes.length <= space ? bytes : encode(truncate(packet));
  }
}

/** Returns an address without the prefix of an IPv4 one and without a zone. */
const plainAddress = (address: string): string =>
  address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address.replace(/%.*$/, '');

/** Answers the queries of a TCP connection. Reads no further queries while many are in progress, or while the client does not read responses. */
function answerQueries(socket: Socket, answer: (message: Buffer) => Promise<Buffer | undefined>): void {
  let received: Buffer = Buffer.alloc(0);
  let working = 0;
  let ended = false;
  const isBusy = () => working >= maxPipelined || socket.writableNeedDrain;
  const finish = () => {
    if (ended && working === 0 && !socket.writableNeedDrain) socket.end();
  };
  const begin = async (message: Buffer) => {
    working += 1;
    const response = await answer(message);
    working -= 1;
    if (response === undefined) socket.destroy();
    else if (!socket.destroyed) {
      const head = Buffer.alloc(2);
      head.writeUInt16BE(response.length);
      socket.write(Buffer.concat([head, response]));
    }
    next();
  };
  const next = () => {
    while (received.length >= 2 && !isBusy() && !socket.destroyed) {
      const length = received.readUInt16BE(0);
      if (length > maxQueryBytes) {
        socket.destroy();
        return;
      }
      if (received.length < 2 + length) break;
      const message = received.subarray(2, 2 + length);
      received = received.subarray(2 + length);
      void begin(message);
    }
    if (isBusy()) socket.pause();
    else if (socket.isPaused()) socket.resume();
    finish();
  };
  socket.on('drain', next);
  socket.on('end', () => {
    ended = true;
    finish();
  });
  socket.on('data', (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    next();
  });
}

/** Returns a truncated response without records, after which the client repeats the query over TCP. */
function truncate(packet: Packet): Packet {
  return {
    ...packet,
    flags: (packet.flags ?? 0) | truncated,
    answers: [],
    authorities: [],
    additionals: (packet.additionals ?? []).filter(({ type }) => type === 'OPT'),
  };
}
