import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, isIPv6 } from 'node:net';
import type { Clock } from '@oarlock/primitives/clock';
import { SourceShares } from '@oarlock/primitives/concurrency/source-shares';
import { encode, type DecodedPacket, type Question } from 'dns-packet';
import { decodeMessage, lowerCaseName, opt, rcodeOf, rcodes, truncated } from './message/message.ts';

export interface Upstream {
  readonly host: string;
  readonly port: number;
}
export interface ForwarderOptions {
  readonly upstreams: readonly Upstream[];
  /** The upstream servers of domains, keyed by domain in lower case without the trailing dot. The longest matching domain applies. */
  readonly stubDomains: ReadonlyMap<string, readonly Upstream[]>;
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** The maximum number of cached responses. A response is cached for the TTL of its records, but at most for `longestMs`. */
  readonly cached: number;
  /** The maximum size of all cached responses in bytes on the wire. */
  readonly cachedBytes: number;
  readonly longestMs: number;
  /** The maximum number of concurrent queries, of which a source takes its share only. Further queries are rejected. */
  readonly maxConcurrent: number;
  readonly randomId: () => number;
}

const longestTcp = 65_535;

/** The client has its share of the concurrent queries. */
export class TooManyQueries extends Error {
  override readonly name = 'TooManyQueries';
  constructor(source: string) {
    super(`too many concurrent queries of ${source}`);
  }
}

/** A response, and its size in bytes. */
interface Received {
  readonly packet: DecodedPacket;
  readonly size: number;
}
interface CacheEntry extends Received {
  readonly until: number;
  readonly since: number;
}

/**
 * Forwards queries to upstream servers, one server after the other until one answers, and caches the responses. Equal concurrent queries are sent
 * only once.
 */
export class Forwarder {
  readonly #options: ForwarderOptions;
  readonly #cache = new Map<string, CacheEntry>();
  #cachedBytes = 0;
  readonly #underWay = new Map<string, Promise<DecodedPacket>>();
  readonly #stopping = new AbortController();
  readonly #shares: SourceShares;

  constructor(options: ForwarderOptions) {
    this.#options = options;
    this.#shares = new SourceShares(options.maxConcurrent);
  }

  /**
   * Returns the response of the first upstream server that answers. `source` is the address of the client: queries that wait count for its share, also
   * if they wait for an equal one.
   * @throws TooManyQueries if the source has its share
   * @throws Error if no server answers; the queried name may exist nevertheless
   */
  async ask(question: Question, { dnssec, source }: { readonly dnssec: boolean; readonly source: string }): Promise<DecodedPacket> {
    const key = `${lowerCaseName(question.name)} ${question.type} ${question.class} ${dnssec}`;
    const known = this.#cached(key);
    if (known !== undefined) return known;
    if (!this.#shares.take(source)) throw new TooManyQueries(source);
    try {
      return await (this.#underWay.get(key) ?? this.#begin(key, question, dnssec));
    } finally {
      this.#shares.release(source);
    }
  }

  #begin(key: string, question: Question, dnssec: boolean): Promise<DecodedPacket> {
    const answer = this.#askAll(question, dnssec)
      .then((received) => {
        this.#store(key, received);
        return received.packet;
      })
      .finally(() => {
        this.#underWay.delete(key);
      });
    this.#underWay.set(key, answer);
    return answer;
  }

  /** Stops the forwarder: aborts the queries that are in progress and rejects later queries to upstream servers. */
  stop(): void {
    this.#stopping.abort(new Error('the server is stopping'));
  }

  #serversFor(name: string): readonly Upstream[] {
    const { stubDomains, upstreams } = this.#options;
    for (let domain = lowerCaseName(name); stubDomains.size > 0 && domain !== ''; domain = domain.replace(/^[^.]*\.?/, '')) {
      const servers = stubDomains.get(domain);
      if (servers) return servers;
    }
    return upstreams;
  }

  async #askAll(question: Question, dnssec: boolean): Promise<Received> {
    const failures: string[] = [];
    let failedResponse: Received | undefined;
    for (const upstream of this.#serversFor(question.name)) {
      this.#stopping.signal.throwIfAborted();
      try {
        const received = await this.#askOne(upstream, question, dnssec);
        const rcode = rcodeOf(received.packet);
        // another server may answer
        if (rcode !== rcodes.SERVFAIL && rcode !== rcodes.REFUSED) return received;
        failedResponse = received;
      } catch (error) {
        failures.push(`${upstream.host}: ${(error as Error).message}`);
      }
    }
    if (failedResponse !== undefined) return failedResponse;
    throw new Error(failures.length === 0 ? 'no upstream server is configured' : failures.join('; '));
  }

  async #askOne(upstream: Upstream, question: Question, dnssec: boolean): Promise<Received> {
    const id = this.#options.randomId();
    const query = encode({
      type: 'query',
      id,
      flags: 0x0100,
      questions: [question],
      additionals: [opt(dnssec)],
    });
    // the whole question, as RFC 5452, section 9.1 requires
    const isAnswer = ({ type, id: answered, questions: [asked] = [] }: DecodedPacket) =>
      type === 'response' &&
      answered === id &&
      asked !== undefined &&
      lowerCaseName(asked.name) === lowerCaseName(question.name) &&
      asked.type === question.type &&
      asked.class === question.class;
    const received = await this.#byUdp(upstream, query, isAnswer);
    return ((received.packet.flags ?? 0) & truncated) === 0 ? received : this.#byTcp(upstream, query, isAnswer);
  }

  /** Sends a query over UDP. Each query uses a new socket, so that a forged response would have to guess the random port (RFC 5452). */
  async #byUdp({ host, port }: Upstream, query: Buffer, isAnswer: (packet: DecodedPacket) => boolean): Promise<Received> {
    const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
    const { clock, timeoutMs } = this.#options;
    try {
      return await new Promise<Received>((resolve, reject) => {
        const { signal } = this.#stopping;
        const fail = (error: Error) => {
          timer.cancel();
          signal.removeEventListener('abort', stop);
          reject(error);
        };
        const stop = () => fail(signal.reason as Error);
        signal.addEventListener('abort', stop, { once: true });
        const timer = clock.after(timeoutMs, () => fail(new Error('no answer')));
        socket.on('error', fail);
        socket.on('message', (message) => {
          const packet = decodeMessage(message);
          if (packet === undefined || !isAnswer(packet)) return;
          timer.cancel();
          signal.removeEventListener('abort', stop);
          resolve({ packet, size: message.length });
        });
        // a connected socket receives only datagrams of the server, and ICMP errors
        socket.connect(port, host, () => {
          socket.send(query);
        });
      });
    } finally {
      socket.close();
    }
  }

  async #byTcp({ host, port }: Upstream, query: Buffer, isAnswer: (packet: DecodedPacket) => boolean): Promise<Received> {
    const signal = AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(this.#options.timeoutMs)]);
    const socket = connect({ host, port, signal });
    try {
      await once(socket, 'connect');
      const length = Buffer.alloc(2);
      length.writeUInt16BE(query.length);
      socket.end(Buffer.concat([length, query]));
      let received = Buffer.alloc(0);
      for await (const chunk of socket) {
        received = Buffer.concat([received, chunk as Buffer]);
        if (received.length > longestTcp + 2) throw new Error('the response is too long');
        if (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) break;
      }
      const packet = received.length < 2 ? undefined : decodeMessage(received.subarray(2, 2 + received.readUInt16BE(0)));
      if (packet === undefined || !isAnswer(packet)) throw new Error('the response cannot be decoded');
      return { packet, size: received.length };
    } finally {
      socket.destroy();
    }
  }

  #cached(key: string): DecodedPacket | undefined {
    const kept = this.#cache.get(key);
    if (kept === undefined) return undefined;
    const now = this.#options.clock.monotonic();
    if (now >= kept.until) {
      this.#drop(key);
      return undefined;
    }
    const age = Math.floor((now - kept.since) / 1000);
    const older = <T extends object>(records: readonly T[] | undefined): T[] =>
      (records ?? []).map((record) => ('ttl' in record ? { ...record, ttl: Math.max(0, Number(record.ttl) - age) } : record));
    return { ...kept.packet, answers: older(kept.packet.answers), authorities: older(kept.packet.authorities) };
  }

  #store(key: string, { packet, size }: Received): void {
    if (rcodeOf(packet) !== rcodes.NOERROR && rcodeOf(packet) !== rcodes.NXDOMAIN) return;
    const ttls = [...(packet.answers ?? []), ...(packet.authorities ?? [])].flatMap((record) =>
      'ttl' in record ? [Number(record.ttl)] : [],
    );
    const { cached, cachedBytes, longestMs, clock } = this.#options;
    const ms = Math.min(longestMs, ...ttls.map((seconds) => seconds * 1000));
    if (ttls.length === 0 || ms <= 0 || cached === 0) return;
    const since = clock.monotonic();
    this.#drop(key);
    this.#cache.set(key, { packet, size, since, until: since + ms });
    this.#cachedBytes += size;
    for (const oldest of this.#cache.keys()) {
      if (this.#cache.size <= cached && this.#cachedBytes <= cachedBytes) break;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    this.#cachedBytes -= this.#cache.get(key)?.size ?? 0;
    this.#cache.delete(key);
  }
}
