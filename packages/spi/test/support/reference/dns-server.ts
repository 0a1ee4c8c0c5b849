import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, isIPv4, isIPv6, type Server, type AddressInfo, type Socket as Stream } from 'node:net';
import type { DnsChanges, DnsRecord, DnsServer } from '@oarlock/spi/dns';
import { codes, encodeAnswer, encodeName, parseQuestion, types, type Answer, type Question } from './dns-message.ts';

const datagram = 512;
const stream = 65_535;
const upstreamMs = 500;
/** Attempts to find a port that is free for both protocols. */
const maxAttempts = 20;

/** A minimal DNS server that passes the suite. */
export class ReferenceDns implements DnsServer {
  readonly clusterDomain = 'cluster.local';
  readonly address = '127.0.0.1';
  readonly #upstream: number | undefined;
  #udp: Socket = createSocket('udp4');
  readonly #tcp: Server = createServer((socket) => this.#serveStream(socket));
  readonly #streams = new Set<Stream>();
  #records: ReadonlyMap<string, DnsRecord> = new Map();
  #names: ReadonlySet<string> = new Set();

  /** `upstream`: the port of a local server for all other names. */
  constructor(upstream?: number) {
    this.#upstream = upstream;
  }

  get port(): number {
    return (this.#tcp.address() as AddressInfo).port;
  }

  async start(): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      this.#tcp.listen(0, this.address);
      await once(this.#tcp, 'listening');
      try {
        this.#udp.bind(this.port, this.address);
        await once(this.#udp, 'listening');
        break;
      } catch (error) {
        // a port that is free for TCP may be in use for UDP
        if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE' || attempt === maxAttempts) throw error;
        this.#udp.close();
        this.#udp = createSocket('udp4');
        this.#tcp.close();
        await once(this.#tcp, 'close');
      }
    }
    this.#udp.on('message', (message, from) => {
      void this.answer(message, datagram).then((answer) => answer && this.#udp.send(answer, from.port, from.address));
    });
  }

  async stop(): Promise<void> {
    this.#udp.close();
    for (const each of this.#streams) each.destroy();
    this.#tcp.close();
    await once(this.#tcp, 'close');
  }

  async apply({ replace, set, removed }: DnsChanges): Promise<void> {
    const next = new Map(replace ? [] : this.#records);
    for (const name of removed) next.delete(name.toLowerCase());
    for (const record of set) next.set(record.name.toLowerCase(), record);
    const names = new Set<string>();
    for (const [name, { srv = [] }] of next) {
      for (const full of [name, ...srv.map((each) => `_${each.name}._${each.protocol}.${name}`)]) {
        for (let rest = full; rest !== ''; rest = rest.slice(rest.indexOf('.') < 0 ? rest.length : rest.indexOf('.') + 1)) names.add(rest);
      }
    }
    // synchronous, so that a response sees either the old or the new state
    this.#records = next;
    this.#names = names;
  }

  async answer(message: Buffer, limit: number): Promise<Buffer | undefined> {
    const question = parseQuestion(message);
    if (question === undefined) return undefined;
    const name = question.name.toLowerCase();
    if (name !== this.clusterDomain && !name.endsWith(`.${this.clusterDomain}`)) return this.#forward(question, message, limit);
    const answers = this.answersOf(question, name.slice(0, -this.clusterDomain.length - 1));
    return answers === undefined ? encodeAnswer(question, codes.noSuchName, [], limit) : encodeAnswer(question, codes.ok, answers, limit);
  }

  /** Returns undefined if the name does not exist. */
  protected answersOf({ type }: Question, name: string): readonly Answer[] | undefined {
    const full = (short: string) => encodeName(`${short}.${this.clusterDomain}`);
    const [, port, protocol, owner] = /^_([^.]+)\._([^.]+)\.(.+)$/.exec(name) ?? [];
    const services = this.#records.get(owner ?? '')?.srv?.filter((each) => each.name === port && each.protocol === protocol) ?? [];
    if (services.length > 0 && type === types.SRV) {
      return services.map(({ port: number, target }) => ({
        type,
        data: Buffer.concat([Buffer.from([0, 0, 0, 100, number >> 8, number & 255]), full(target)]),
      }));
    }
    const record = this.#records.get(name);
    if (record?.cname !== undefined)
      return type === types.A || type === types.CNAME ? [{ type: types.CNAME, data: encodeName(record.cname) }] : [];
    if (record !== undefined && type === types.A)
      return record.addresses.filter((each) => isIPv4(each)).map((each) => ({ type, data: Buffer.from(each.split('.').map(Number)) }));
    if (record !== undefined && type === types.AAAA)
      return record.addresses.filter((each) => isIPv6(each)).map((each) => ({ type, data: ipv6(each) }));
    return this.#names.has(name) || name === '' ? [] : undefined;
  }

  async #forward(question: Question, message: Buffer, limit: number): Promise<Buffer> {
    const failure = encodeAnswer(question, codes.serverFailure, [], limit);
    if (this.#upstream === undefined) return failure;
    const socket = createSocket('udp4');
    try {
      const answer = once(socket, 'message', { signal: AbortSignal.timeout(upstreamMs) }) as Promise<[Buffer]>;
      socket.send(message, this.#upstream, '127.0.0.1');
      return (await answer)[0];
    } catch {
      return failure; // unreachable or too slow: the client may retry
    } finally {
      socket.close();
    }
  }

  #serveStream(socket: Stream): void {
    this.#streams.add(socket);
    socket.on('close', () => this.#streams.delete(socket));
    socket.on('error', () => socket.destroy());
    let pending = Buffer.alloc(0);
    socket.on('data', (data: Buffer) => {
      pending = Buffer.concat([pending, data]);
      while (pending.length >= 2 && pending.length >= 2 + pending.readUInt16BE(0)) {
        const length = pending.readUInt16BE(0);
        const message = pending.subarray(2, 2 + length);
        pending = pending.subarray(2 + length);
        void this.answer(message, stream).then((answer) => {
          if (answer === undefined) return socket.destroy();
          return socket.write(Buffer.concat([Buffer.from([answer.length >> 8, answer.length & 255]), answer]));
        });
      }
    });
  }
}

function ipv6(text: string): Buffer {
  const [head = '', tail = ''] = text.split('::');
  const [left, right] = [head, tail].map((part) => part.split(':').filter((group) => group !== ''));
  const groups = [...(left ?? []), ...Array<string>(8 - (left?.length ?? 0) - (right?.length ?? 0)).fill('0'), ...(right ?? [])];
  return Buffer.from(groups.map((group) => group.padStart(4, '0')).join(''), 'hex');
}
